"""Six lessons on epsilon: predict, move, see, and one sentence to take home.

A lesson is one small file of slides (frame.py says how it is written). Every number in its texts
and pictures is computed when it is asked for, from formulas, shipped rows or cards: a page and a
worksheet draw from the same slides, so text and chart cannot disagree.
"""

from __future__ import annotations

from dpmc_core.lab.teach.lessons import again, attacker, choose, claim, coin, crowd
from dpmc_core.lab.teach.lessons.frame import Lesson

LESSONS: dict[str, Lesson] = {
    lesson.id: lesson
    for lesson in (
        coin.LESSON,
        crowd.LESSON,
        attacker.LESSON,
        again.LESSON,
        claim.LESSON,
        choose.LESSON,
    )
}
