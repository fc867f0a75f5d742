"""Draw a protocol: its story in three pictures, and the parties with the message on its way."""

from collections.abc import Sequence
from urllib.parse import quote

from dpmc_lab.protocol import RECOMMENDER, THIRD_PARTY, Message
from dpmc_lab.protocol.federated import SERVER
from pages.ui.charts import ACCENT, GRID, PAPER, Figure, create_figure
from pages.ui.text import escape_for_chart

# The pictures use the symbols of the chart: squares and diamonds serve, circles are users.
_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 205" color="INK" fill="none"
stroke="currentColor" stroke-width="2"><style>text { fill: currentColor; stroke: none;
font: 14px sans-serif; text-anchor: middle } .seen text { text-anchor: start }</style><defs>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
orient="auto"><path d="M0 0 8 4 0 8z" fill="currentColor" stroke="none"/></marker></defs>"""
_USERS = """<circle cx="40" cy="160" r="13"/><circle cx="113" cy="160" r="13"/>
<circle cx="187" cy="160" r="13"/><circle cx="260" cy="160" r="13"/>"""
_SHOPS = """<rect x="15" y="140" width="70" height="30"/>
<rect x="115" y="140" width="70" height="30"/><rect x="215" y="140" width="70" height="30"/>"""
_CLICKS = """<text x="50" y="160">clicks</text><text x="150" y="160">clicks</text>
<text x="250" y="160">clicks</text>"""
# Of each picture: its title, its drawing, its text alternative and the text below it.
STORY = (
    (
        "Why?",
        f"""{_USERS}<rect x="114" y="16" width="72" height="44"/><text x="150" y="43">5 2 4 1</text>
<g marker-end="url(#tip)"><path d="M45 145 118 64"/><path d="M116 144 138 64"/>
<path d="M184 144 162 64"/><path d="M255 145 182 64"/></g>
<text x="150" y="198">users send their ratings</text>""",
        "Four users send their ratings to one recommender.",
        "A recommender usually collects everybody's ratings, so its operator can read them."
        " Can it learn without reading them?",
    ),
    (
        "Who?",
        f"""{_USERS}<rect x="35" y="24" width="28" height="28"/>
<text x="49" y="16">recommender</text>
<path d="M235 24 251 40 235 56 219 40z"/><text x="240" y="16">third party</text>
<g marker-end="url(#tip)"><path d="M54 56 106 144"/><path d="M192 146 228 60"/>
<path d="M214 40 68 40"/></g><text x="112" y="92">factors</text>
<text x="252" y="104">hidden</text><text x="252" y="120">answers</text>
<text x="143" y="34">sums</text>
<text x="150" y="198">users keep their ratings</text>""",
        "The recommender sends factors to the users. The users send hidden answers to the third"
        " party. The third party sends sums to the recommender.",
        "The recommender sends a few numbers for each item, its factors. Users answer with hidden"
        " corrections, and a third party adds these up.",
    ),
    (
        "What does each one see?",
        """<circle cx="22" cy="158" r="11"/><path d="M22 81 37 96 22 111 7 96z"/>
<rect x="9" y="20" width="26" height="26"/><g class="seen">
<text x="54" y="38">sums of answers, with noise</text>
<text x="54" y="101">each user's hidden answer</text>
<text x="54" y="163">own ratings and item factors</text></g>""",
        "The recommender sees sums of answers, with noise. The third party sees each user's"
        " hidden answer. A user sees item factors and their own ratings.",
        "Square: recommender. Diamond: third party. Circle: user. It fails if recommender and"
        " third party work together.",
    ),
)
FEDERATED_STORY = (
    (
        "Why?",
        f"""{_SHOPS}{_CLICKS}<g stroke-dasharray="4 4"><path d="M86 155 114 155"/>
<path d="M186 155 214 155"/></g><text x="150" y="110">no clicks may leave</text>""",
        "Three parties hold clicks, and no clicks may leave a party.",
        "Several parties, such as shops, want to learn from all clicks together. None may show"
        " its clicks to another.",
    ),
    (
        "Who?",
        f"""{_SHOPS}{_CLICKS}<rect x="135" y="22" width="30" height="30"/>
<text x="150" y="14">server</text>
<g marker-end="url(#tip)"><path d="M55 136 132 58"/><path d="M150 136 150 58"/>
<path d="M245 136 168 58"/></g><text x="252" y="88">noisy</text>
<text x="252" y="104">profiles</text>
<text x="150" y="196">parties keep their clicks</text>""",
        "Each party sends noisy profiles to a server and keeps its clicks.",
        "Each party keeps some users or items with all their clicks. A server averages the"
        " profiles that the parties send, and returns the average.",
    ),
    (
        "What does each one see?",
        """<rect x="4" y="132" width="40" height="22"/><rect x="11" y="50" width="26" height="26"/>
<g class="seen"><text x="58" y="68">noisy profiles, no clicks</text>
<text x="58" y="148">own clicks, average profiles</text></g>""",
        "The server sees noisy profiles and no clicks. A party sees its own clicks and the average"
        " profiles.",
        "Square: server. Wide box: party. The noise on the profiles hides single clicks.",
    ),
)
_STORY_STYLE = """<style>
.story { display: grid; grid-template-columns: repeat(auto-fit, minmax(14rem, 1fr)); gap: 1.5rem; }
.story figure { margin: 0; } .story h2 { font-size: 1.15rem; padding: 0 0 .5rem; }
.story img { width: 100%; max-width: 22rem; } .story figcaption { line-height: 1.45; }
</style>"""
_SYMBOLS = {RECOMMENDER: "square", SERVER: "square", THIRD_PARTY: "diamond"}


def render_story(*, federated: bool, masks: bool, ink: str) -> str:
    """Render the story as HTML: why, who, and what each party sees, with or without masks."""
    figures = (
        f'<figure><h2>{title}</h2><img alt="{alt}" src="data:image/svg+xml,'
        f'{quote(_SVG.replace("INK", ink) + drawing + "</svg>")}"><figcaption>{text}</figcaption>'
        "</figure>"
        for title, drawing, alt, text in (FEDERATED_STORY if federated else STORY)
    )
    html = f'{_STORY_STYLE}<div class="story">{"".join(figures)}</div>'
    return html if masks else html.replace("hidden", "noisy")


def plot_protocol(
    parties: Sequence[str], earlier_messages: Sequence[Message], current_message: Message | None
) -> Figure:
    """Plot the parties, faint lines where messages went, and an arrow for the current one."""
    positions = _locate_parties(parties)
    fig = create_figure("stage")
    for pair in dict.fromkeys(frozenset((m.sender, m.receiver)) for m in earlier_messages):
        x, y = zip(*(positions[name] for name in sorted(pair)), strict=True)
        fig.add_stroke(x, y, GRID)
    speaking = (
        set() if current_message is None else {current_message.sender, current_message.receiver}
    )
    x, y = zip(*(positions[name] for name in parties), strict=True)
    fig.add_trace(
        "parties",
        x=x,
        y=y,
        text=[
            f"<b>{escape_for_chart(name)}</b>" if name in speaking else escape_for_chart(name)
            for name in parties
        ],
        textposition=["top center" if height > 0.5 else "bottom center" for height in y],
        marker_symbol=[_SYMBOLS.get(name, "circle") for name in parties],
        marker_color=[ACCENT if name in speaking else PAPER for name in parties],
    )
    if current_message is not None:
        (x0, y0), (x1, y1) = positions[current_message.sender], positions[current_message.receiver]
        fig.add_annotation("arrow", x=x1, y=y1, ax=x0, ay=y0)
        kind = escape_for_chart(current_message.kind)
        fig.add_annotation("message", text=kind, x=(x0 + x1) / 2, y=(y0 + y1) / 2)
    return fig


def _locate_parties(parties: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return positions: servers at the top, everybody else in a row below."""
    top_row = {RECOMMENDER: (0.15, 1.0), THIRD_PARTY: (0.85, 1.0), SERVER: (0.5, 1.0)}
    bottom_row = [name for name in parties if name not in top_row]
    return top_row | {name: ((k + 0.5) / len(bottom_row), 0.0) for k, name in enumerate(bottom_row)}
