"""Invented names for generated data: film titles with genres, restaurants, jokes."""

from __future__ import annotations

import numpy as np


def _words(text: str) -> list[str]:
    return [word.replace("-", " ") for word in text.split()]


GENRES: dict[str, tuple[str, ...]] = {  # with the patterns of their titles
    "Adventure": ("Journey to the {a} {n}", "The {a} {n} Expedition"),
    "Animation": ("The {a} Little {n}", "{a} {n} and Friends"),
    "Comedy": ("My {a} {n}", "How to Lose Your {a} {n}", "Oops, That {a} {n}"),
    "Crime": ("The {a} {n} Job", "Who Stole the {a} {n}?"),
    "Documentary": ("{a} {n}: A Year", "In Search of the {a} {n}"),
    "Drama": ("The {a} {n}", "What the {a} {n} Knew", "{a} {n}"),
    "Fantasy": ("The {a} {n} Prophecy", "Crown of the {a} {n}"),
    "Horror": ("Night of the {a} {n}", "Beware the {a} {n}"),
    "Musical": ("The {a} {n} Sings", "{a} {n} in B Flat"),
    "Mystery": ("The Case of the {a} {n}", "The {a} {n} Vanishes"),
    "Romance": ("Love and the {a} {n}", "Kiss Me, {a} {n}"),
    "Science Fiction": ("{a} {n} from Orbit", "The {a} {n} of Europa"),
    "Thriller": ("{a} {n} Down", "Eleven Minutes to the {a} {n}"),
    "War": ("The {a} {n} Brigade", "Letters from the {a} {n}"),
    "Western": ("High Noon for the {a} {n}", "The {a} {n} Rides Again"),
}

_ADJECTIVES = _words(
    """Absent Amber Awkward Borrowed Brave Broken Careful Clockwork Copper Crooked Curious Distant
Dizzy Electric Elegant Famous Fearless Forgotten Frozen Gentle Golden Grumpy Haunted Hidden
Hollow Honest Humble Invisible Jealous Lonely Lucky Midnight Misplaced Modest Nervous Noisy
Ordinary Paper Patient Perfect Polite Quiet Reluctant Restless Salty Secret Seventh Silver
Sleepless Stubborn Sudden Tangled Upstairs Velvet Wandering Wooden"""
)

_NOUNS = _words(
    """Accordion Admiral Astronaut Badger Bakery Balloon Beekeeper Bicycle Bookshop Cactus Carousel
Cartographer Cellist Chimney Compass Cuckoo Detective Dentist Elevator Envelope Ferry Gardener
Giraffe Grandmother Harbour Hedgehog Janitor Kettle Lantern Librarian Lighthouse Lobster
Locksmith Mailbox Meteor Mountain Neighbour Octopus Orchard Parrot Pianist Postman Puppeteer
Robot Sandwich Scarecrow Snowman Staircase Submarine Suitcase Tailor Teapot Telescope Tortoise
Train Umbrella Violin Volcano Waiter Walrus Wizard"""
)

SHELVES: dict[str, tuple[str, ...]] = {  # shelves of a bookshop, with the patterns of their titles
    "Biography": ("A Life of {n}s", "The {a} {n}: A Memoir"),
    "Business": ("The {a} {n} Principle", "Selling {n}s to Anyone"),
    "Children": ("Goodnight, {a} {n}", "The {a} {n} Who Could"),
    "Classics": ("The {a} {n}", "{n}s and Prejudice"),
    "Cookery": ("Fifty Dishes with a {n}", "The {a} {n} Cookbook"),
    "Crime": ("Death of a {a} {n}", "The {n} Murders: {a}"),
    "Fantasy": ("A Crown of {a} {n}s", "The {a} {n} Cycle"),
    "Gardening": ("The {a} {n} Garden", "Growing Up with {n}s, {a}"),
    "History": ("A {a} History of the {n}", "The Age of the {a} {n}"),
    "Mathematics": ("{n} Theory for the {a}", "An {a} Introduction to {n}s"),
    "Poetry": ("{a} {n}, and Other Poems", "Ode to a {a} {n}"),
    "Romance": ("The {a} {n}'s Heart", "Kissed by a {a} {n}"),
    "Science Fiction": ("The {a} {n} of Mars", "{n} Seven: {a}"),
    "Travel": ("Around the World with a {a} {n}", "The {a} {n} Route"),
}

_CUISINES = {
    "Bakery": ("The {a} Croissant", "{a} Crumbs"),
    "Bistro": ("Le Petit {n}", "Chez {n}"),
    "Burgers": ("{a} Bun", "{n} Burger"),
    "Cantina": ("La Cantina del {n}", "Tres {n}s"),
    "Curry": ("The {a} Cardamom", "{n} Masala"),
    "Diner": ("The {a} {n} Diner", "{n}'s All Night"),
    "Noodles": ("{a} Noodle", "{n} Ramen"),
    "Pizzeria": ("Pizzeria {n}", "The {a} Mozzarella"),
    "Seafood": ("The {a} Oyster", "{n} & Tide"),
    "Tea house": ("The {a} Samovar", "{n} and Biscuits"),
}

_WHO = _words(
    """accountant ghost goalkeeper mathematician octopus opera-singer penguin plumber statistician
time-traveller"""
)
_WHERE = _words("bakery bank bus gym lift library museum spaceship submarine wedding")


def films(count: int, rng: np.random.Generator) -> tuple[list[str], list[tuple[str, ...]]]:
    """Distinct titles and one to three genres each; the first genre shapes the title."""
    return _titles(GENRES, (0.45, 0.4, 0.15), count, rng)


def books(count: int, rng: np.random.Generator) -> tuple[list[str], list[tuple[str, ...]]]:
    """Distinct titles and one or two shelves each; the first shelf shapes the title."""
    return _titles(SHELVES, (0.7, 0.3), count, rng)


def _titles(
    genre_patterns: dict[str, tuple[str, ...]],
    shares: tuple[float, ...],
    count: int,
    rng: np.random.Generator,
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Distinct titles, each with 1, 2, ... genres in the given shares."""
    pairs = len(_ADJECTIVES) * len(_NOUNS)
    titles, genres = [], []
    names = list(genre_patterns)
    for pair in rng.choice(pairs, size=count, replace=False):
        own = rng.choice(names, size=rng.choice(len(shares), p=shares) + 1, replace=False)
        pattern = str(rng.choice(genre_patterns[own[0]]))
        adjective, noun = divmod(int(pair), len(_NOUNS))
        titles.append(pattern.format(a=_ADJECTIVES[adjective], n=_NOUNS[noun]))
        genres.append(tuple(str(g) for g in own))
    return titles, genres


def restaurants(count: int, rng: np.random.Generator) -> tuple[list[str], list[tuple[str, ...]]]:
    """Distinct names, each with its kitchen."""
    found: dict[str, tuple[str, ...]] = {}
    while len(found) < count:
        kind = str(rng.choice(list(_CUISINES)))
        pattern = str(rng.choice(_CUISINES[kind]))
        name = pattern.format(a=rng.choice(_ADJECTIVES), n=rng.choice(_NOUNS))
        found.setdefault(name, (kind,))
    return list(found), list(found.values())


def jokes() -> list[str]:
    """One hundred first lines."""
    return [
        f"{'An' if who[0] in 'aeiou' else 'A'} {who} walks into a {where}..."
        for who in _WHO
        for where in _WHERE
    ]
