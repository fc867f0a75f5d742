"""What tests of the lessons share."""

from functools import cache
from itertools import product

from dpmc_lab.lessons import LESSONS


@cache
def list_slides():
    """Every slide by its lesson and key. Opening them computes their numbers."""
    return {
        f"{lesson.id}/{slide.key}": slide for lesson in LESSONS.values() for slide in lesson.slides
    }


def list_settings(slide):
    """Everything that can be moved, at a few places each, in all combinations."""
    choices = []
    for control in slide.move:
        values = control.values
        if values:
            choices.append({values[0], values[len(values) // 2], control.start, values[-1]})
        elif control.options:
            choices.append(set(control.options))
        else:
            choices.append({control.start, control.start + 1})
    for chosen in product(*choices):
        yield dict(zip((control.key for control in slide.move), chosen, strict=True))
