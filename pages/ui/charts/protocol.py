"""Draw a protocol: its story in three pictures, and the parties with the message on its way."""

from collections.abc import Sequence

from dpmc_lab.classroom import pictures
from dpmc_lab.protocol import RECOMMENDER, THIRD_PARTY, Message
from dpmc_lab.protocol.federated import SERVER
from pages.ui.charts import GRID, INK, PAPER, Figure, create_figure
from pages.ui.text import escape_for_chart

# Of each picture: its title, its text alternative and the text below it.
STORY = {
    "protocol-why": (
        "Why?",
        "Four people send their ratings to one server.",
        "A recommender usually collects everybody's ratings, so its operator can read them."
        " Can it learn without reading them?",
    ),
    "protocol-who": (
        "Who?",
        "The recommender sends factors to the users. The users send hidden answers to the third"
        " party. The third party sends sums to the recommender.",
        "People keep their ratings. The recommender sends a few numbers for each item, its factors."
        " Users answer with hidden corrections, and a third party adds these up.",
    ),
    "protocol-sees": (
        "What does each one see?",
        "The recommender sees sums of answers, with noise. The third party sees each user's"
        " hidden answer. A user sees item factors and their own ratings.",
        "The recommender sees sums of answers, with noise. The third party sees each user's hidden"
        " answer. A user sees item factors. It fails if recommender and third party work together.",
    ),
}
FEDERATED_STORY = {
    "federated-why": (
        "Why?",
        "Three servers hold clicks, and no clicks may leave a server.",
        "Several parties, such as shops, want to learn from all clicks together. None may show"
        " its clicks to another.",
    ),
    "federated-who": (
        "Who?",
        "Each party sends noisy profiles to a server and keeps its clicks.",
        "Each party keeps some users or items with all their clicks. A server averages the"
        " profiles that the parties send, and returns the average.",
    ),
    "federated-sees": (
        "What does each one see?",
        "The server sees noisy profiles and no clicks. A party sees its own clicks and the average"
        " profiles.",
        "The server sees noisy profiles and no clicks. A party sees its own clicks and the average"
        " profiles. The noise on the profiles hides single clicks.",
    ),
}
_STORY_STYLE = """<style>
.story { display: grid; gap: 1.125rem;
  grid-template-columns: repeat(auto-fit, minmax(14rem, 1fr)); }
.story svg { display: block; max-width: 300px; margin: 0 auto; }
.story text { font-size: 16px; }
.story figure { margin: 0; border: 1px solid var(--line); border-radius: 12px; padding: 14px 18px;
  background: var(--card); }
@media (min-width: 801px) { .story { min-height: 60vh; } }
.story h2 { font-size: 1.0625rem; font-weight: 600; padding: 0 0 .5rem; margin: 0; }
.story figcaption { line-height: 1.4; font-size: 1rem; margin-top: .5rem; color: var(--text); }
</style>"""
_SERVERS = (RECOMMENDER, SERVER, THIRD_PARTY)


def render_story(*, federated: bool, masks: bool) -> str:
    """Render the story as HTML: why, who, and what each party sees, with or without masks."""
    figures = (
        f'<figure><h2>{title}</h2><div role="img" aria-label="{alt}">'
        f"{pictures.render_illustration(name)}</div><figcaption>{text}</figcaption></figure>"
        for name, (title, alt, text) in (FEDERATED_STORY if federated else STORY).items()
    )
    style = f"<style>{pictures.STYLE_SHEET}</style>{_STORY_STYLE}"
    html = f'{style}<div class="story">{"".join(figures)}</div>'
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
        marker_symbol=["square" if name in _SERVERS else "circle" for name in parties],
        marker_color=[INK if name in speaking else PAPER for name in parties],
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
