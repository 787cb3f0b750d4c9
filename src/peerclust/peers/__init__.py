"""One site of a clustering over the network; `runtimes.network` has the connections and messages.

- `commands`: entry points; `run_site` takes one site from its files to its result;
- `join`: how a site joins a run; `setup`: what all sites agree on first; `configuration`: what
  they run then; `site`: the rounds; `verdict`: how a run ended;
- `site_directory`: what a site writes; `end_request`: SIGTERM and Ctrl-C;
- `check`: a preflight check; `replay`: the same run computed again.
"""
