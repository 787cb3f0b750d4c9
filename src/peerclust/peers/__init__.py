"""One site of a clustering over the network; `runtimes.network` has the connections and messages.

- `commands`: entry points; `run_site` takes one site from its files to its result;
- `rows`: a site's rows; `join`: how a site joins a run; `setup`: what all sites agree on first;
  `setup_validation`: what its rows and the agreement must fit; `configuration`: what follows from
  the agreement, such as the program; `site`: the rounds; `verdict`: how a run ended;
- `site_directory`: what a site writes; `result_files`: its result; `end_request`: SIGTERM and
  Ctrl-C; `farewell`: what a site that cannot take part tells its neighbors;
- `check`: a preflight check; `serve`: the result for sites that missed the end; `replay`: the same
  run computed again.
"""
