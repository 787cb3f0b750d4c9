"""Solutions and certificates for readers: as lines of text, and as HTML in a notebook.

The HTML needs nothing outside of it. Its only color is a translucent gray, which fits a light and a
dark page.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from math import isnan

from peerclust.clustering.result import Certificate
from peerclust.clustering.solution import Solution
from peerclust.losses import Huber

# The number of clusters and features that a table shows.
MAX_CLUSTERS, MAX_FEATURES = 20, 10

Facts = list[tuple[str, str]]


def summarize(solution: Solution, users: int | None = None) -> Facts:
    """Return status and certificate of a solution in words, as names and values.

    `users` is the number of all users, if the solution has only some of them.
    """
    certificate = solution.certificate
    unit = "data's spread" if solution.scale is None else "spread of the scaled data"
    relative = certificate.disagreement / certificate.spread
    bound = "" if certificate.disagreement_exact else "at most "
    sent = certificate.bytes + certificate.setup_bytes + certificate.search_bytes
    moved = (
        f"{certificate.moves_kept} of {certificate.moves} moves of a center lowered the cost; with"
        f" the last run they took {certificate.search_rounds:,} of these rounds"
    )
    # A peer's solution does not say why.
    rho = f"{solution.rho:.6g}: {solution.why.get('rho', 'agreed')}" if solution.rho else ""
    return [
        ("status", str(solution.status)),
        ("users", f"{len(solution.centers) if users is None else users:,}"),
        ("rounds", f"{certificate.rounds + certificate.search_rounds:,}"),
        *([("search", moved)] if certificate.moves else []),
        ("residual", f"{certificate.residual:.3g}"),
        ("disagreement", f"{bound}{certificate.disagreement:.3g} ({relative:.2%} of the {unit})"),
        ("pooled cost", f"{certificate.pooled_cost:.6g} of all rows at the joint centers"),
        ("solver", f"{solution.solver}: {solution.why['solver']}"),
        *([("delta", f"{solution.loss.delta:.6g}")] if isinstance(solution.loss, Huber) else []),
        *([("rho", rho)] if rho else []),
        *([] if isnan(sent) else [("sent", f"{sent:,} bytes between the users")]),
    ]


def itemize(certificate: Certificate) -> Facts:
    """Return all numbers of a certificate, as names and values; what is not known is "nan"."""
    c = certificate
    bound = "" if c.disagreement_exact else ", both upper bounds"
    return [
        ("residual", f"{c.residual:.3g}, pooled {c.pooled_residual:.3g}"),
        ("disagreement", f"{c.disagreement:.3g}, stacked {c.disagreement_stacked:.3g}{bound}"),
        ("cost", f"{c.cost:.6g}, pooled {c.pooled_cost:.6g}"),
        ("first run", _effort(c.rounds, c.messages, c.bytes)),
        ("set-up", _effort(c.setup_rounds, c.setup_messages, c.setup_bytes)),
        (
            "later runs",
            _effort(c.search_rounds, c.search_messages, c.search_bytes)
            + f"; {c.moves_kept} of {c.moves} moves kept",
        ),
        ("data", f"spread {c.spread:.4g}, largest weight of a user {c.largest_weight:.4g}"),
    ]


def _effort(rounds: int, messages: int, sent: int) -> str:
    return ", ".join(
        f"{number:,} {what}{'s' * (number != 1)}"
        for number, what in ((rounds, "round"), (messages, "message"), (sent, "byte"))
    )


def solution_text(solution: Solution) -> str:
    """Return a solution as lines of text."""
    _, K, d = solution.centers.shape
    sizes = ", ".join(f"{size:,}" for size in solution.cluster_sizes[:MAX_CLUSTERS])
    more = ", ..." if K > MAX_CLUSTERS else ""
    facts = [("clusters", f"{K:,} in {d:,} features, with {sizes}{more} rows")]
    return _lines(_title(solution), facts + summarize(solution))


def certificate_text(certificate: Certificate) -> str:
    """Return a certificate as lines of text."""
    return _lines("Certificate", itemize(certificate))


def _title(solution: Solution) -> str:
    return "Solution" if solution.part is None else "Part of a solution"


def _lines(title: str, facts: Facts) -> str:
    width = max(len(name) for name, _ in facts)
    return "\n".join([title, *(f"  {name:{width}}  {value}" for name, value in facts)])


def solution_html(solution: Solution) -> str:
    """Return a solution as HTML: its summary, the joint centers, and the certificate."""
    certificate = _facts(itemize(solution.certificate))
    return _page(
        _title(solution),
        _facts(summarize(solution))
        + _centers(solution)
        + f"<details><summary>Certificate</summary>{certificate}</details>",
    )


def certificate_html(certificate: Certificate) -> str:
    """Return a certificate as HTML."""
    return _page("Certificate", _facts(itemize(certificate)))


def _page(title: str, body: str) -> str:
    return (
        '<div class="peerclust"><style>'
        ".peerclust table {border-collapse: collapse; margin: 0.4em 0}"
        " .peerclust :is(td, th) {padding: 0.15em 0.6em; border-bottom: 1px solid #8886}"
        " .peerclust .facts td {text-align: left}"
        f"</style><strong>{title}</strong>{body}</div>"
    )


def _facts(facts: Facts) -> str:
    return f'<table class="facts">{"".join(_row("td", fact) for fact in facts)}</table>'


def _centers(solution: Solution) -> str:
    """Return a table of the joint centers, with the number of rows of each."""
    centers = solution.consensus
    K, d = centers.shape
    names = solution.feature_names or tuple(f"feature {j}" for j in range(d))
    head = ["cluster", "rows", *names[:MAX_FEATURES]]
    if d > MAX_FEATURES:
        head.append(f"... {d:,} in all")
    sizes = solution.cluster_sizes[:MAX_CLUSTERS]
    rows = [
        [str(k), f"{size:,}", *(f"{value:.4g}" for value in centers[k, :MAX_FEATURES])]
        for k, size in enumerate(sizes)
    ]
    if K > MAX_CLUSTERS:
        rows.append([f"... {K:,} in all"])
    body = "".join(_row("td", row) for row in rows)
    return f"<table><caption>Joint centers</caption>{_row('th', head)}{body}</table>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
