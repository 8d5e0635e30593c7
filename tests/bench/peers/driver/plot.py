"""One plot as SVG text: jobs a second of every row, a panel for each handler."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from .figures import Row
from .systems import SQL, STOKEHOLD
from .table import in_order, number

WIDTH, LABELS, FIGURES = 1000, 440, 90
BAR, GAP, HEAD, MARGIN = 18, 8, 34, 16
COLOURS = {STOKEHOLD: "#d9480f", SQL: "#adb5bd"}
PEER = "#4c6ef5"
TITLES = {"noop": "No-op jobs a second", "order": "Jobs a second, each adding up a 1 KB order"}


def text(x: float, y: float, content: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(content)}</text>'


def bar(row: Row, y: float, scale: float) -> list[str]:
    middle = y + BAR / 2
    label = f"{row.mode.system}: {row.mode.name}"
    parts = [text(LABELS - 10, middle + 4, label, "end")]
    colour = COLOURS.get(row.mode.system, PEER)
    parts.append(f'<rect x="{LABELS}" y="{y:.1f}" width="{row.rate * scale:.1f}" '
                 f'height="{BAR}" fill="{colour}"/>')
    low, high = min(row.rates) * scale, max(row.rates) * scale
    if high > low:
        parts.append(f'<path d="M{LABELS + low:.1f} {middle:.1f}H{LABELS + high:.1f}" '
                     'stroke="#212529" stroke-width="2"/>')
    parts.append(text(LABELS + high + 8, middle + 4, number(row.rate) + (" *" if row.is_noisy else "")))
    return parts


def svg(rows: Sequence[Row]) -> str:
    shown = [row for row in in_order(rows) if row.rate]
    most = max((max(row.rates) for row in shown), default=1)
    scale = (WIDTH - LABELS - FIGURES) / most
    parts, y = [], float(MARGIN)
    for handler in dict.fromkeys(row.handler for row in shown):
        parts.append(text(LABELS, y + 18, TITLES.get(handler, handler), more=' font-weight="bold"'))
        y += HEAD
        for row in (row for row in shown if row.handler == handler):
            parts += bar(row, y, scale)
            y += BAR + GAP
        y += MARGIN
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y:.0f}" '
        f'viewBox="0 0 {WIDTH} {y:.0f}" font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{y:.0f}" fill="white"/>',
        *parts,
        "</svg>",
        "",
    ])
