"""Draw the share of the gain that is kept at one epsilon."""

import numpy as np

from dpmc_lab.study.paired import IntervalEstimate
from pages.ui.charts import BASELINE, INK, STYLES, USEFULNESS, Figure, create_figure

_MIN_RANGE = (-0.12, 1.12)  # what always shows of the axis, as a share of the gain
_CLIP_RANGE = (-0.6, 1.6)  # where an interval is cut


def _share_axis(low: float, high: float) -> list[float]:
    """Return the ends of an axis of shares, which reach a little beyond low and high.

    They lie at least at the ends of _MIN_RANGE, and hardly beyond those of _CLIP_RANGE.
    """
    ends = min(_MIN_RANGE[0], low - 0.05), max(_MIN_RANGE[1], high + 0.05)
    return [max(ends[0], _CLIP_RANGE[0] - 0.05), min(ends[1], _CLIP_RANGE[1] + 0.05)]


def plot_gain_share(
    share: IntervalEstimate, limit: float, baseline_name: str, reference_name: str
) -> Figure:
    """Plot the share of the gain with its interval, and the limit.

    Args:
        share: the share with its interval.
        limit: the share that must be left.
        baseline_name: what the gain is counted from.
        reference_name: what the gain is counted up to.
    """
    value, low, high = np.clip(share, *_CLIP_RANGE).tolist()
    fig = create_figure("kept", xaxis_range=_share_axis(low, high))
    levels = (
        (0.0, baseline_name, BASELINE, "dot"),
        (1.0, reference_name, INK, "dash"),
        (limit, f"your limit: {100 * limit:g} %", INK, "solid"),
    )
    for k, (x_level, name, ink, dash) in enumerate(levels):
        fig.add_stroke([x_level] * 2, [-1, 1], ink, line_dash=dash)
        # the limit has its name below, the others above
        position = {
            "y": int(k < 2),
            "yref": "paper",
            "yanchor": "bottom" if k < 2 else "top",
            "xanchor": "left" if x_level < 0.5 else "right",  # names grow into the picture
        }
        fig.add_annotation(text=name, x=x_level, font_color=ink, **position)
    text = f"{100 * share.value:.0f} %"
    fig.add_stroke([low, high], [0, 0], USEFULNESS, line_width=8)
    mark = fig.make_marker(STYLES["usefulness"], solid=True, size=20)
    fig.add_markers([value], [0], mark, hover=f"{text} of the gain<extra></extra>")
    fig.add_annotation("kept", text=f"<b>{text}</b>", x=value)
    return fig
