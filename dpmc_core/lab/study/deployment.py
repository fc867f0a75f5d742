"""A release in the sections of the registry of deployments of differential privacy.

The OpenDP deployments registry (arXiv 2509.13509) asks the same of everybody who publishes with
differential privacy. What a card cannot know, such as who publishes and why, stays null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmc_core.privacy import Guarantee, Notion, Trust

_FLAVOR = {
    Notion.PURE: "pure differential privacy",
    Notion.APPROX: "approximate differential privacy",
    Notion.JOINT: "joint differential privacy, approximate",
}
_MODEL = {
    Trust.CURATOR: "central: a trusted server holds the ratings",
    Trust.LOCAL: "local: each user randomises first",
    Trust.AGGREGATOR: "distributed: an untrusted recommender, a third party that does not collude",
    Trust.FEDERATED: "distributed: each party is trusted with its own users alone",
}


def deployment_card(card: Mapping[str, Any], guarantee: Guarantee) -> dict[str, Any]:
    """The sections of the registry, from a release's card and its guarantee as sampled."""
    certified, change, public = guarantee.certified(), guarantee.change, guarantee.public
    catalogue = card["catalogue"]
    unprotected = ["the numbers of users and items", "the range of the ratings"]
    if not change.covers_existence:
        unprotected.append("which ratings exist, and how many")
    elif catalogue["origin"] == "from-data":
        unprotected.append("which items somebody rated, and how many users rated any")
    if guarantee.notion is Notion.JOINT:
        unprotected.append("from each user: the own predictions")
    versions = dict(card["versions"])
    return {
        "product": {
            "name": None,
            "publisher": None,
            "date": None,
            "intended_use": None,
            "description": f"{guarantee.publishes.value}, by {card['mechanism']}"
            f" (revision {card['revision']})",
            "region": None,
        },
        "dp_flavor": {
            "name": _FLAVOR.get(guarantee.notion),
            "input_metric": f"users x items ratings that differ in {change.protects}:"
            f" {change.relation}",
            "bound_on_input_distance": 1,
            "output_measure": "max divergence"
            if certified.delta == 0
            else "smoothed max divergence",
            "bound_on_output_distance": {"epsilon": certified.epsilon, "delta": certified.delta},
            "data_domain": f"ratings {public.low:g}..{public.high:g} of {public.items} items by"
            f" {public.users} users, at most one for each cell"
            + (f" and {public.cap} by a user" if public.cap else ""),
            "unprotected_quantities": unprotected,
        },
        "privacy_loss": {
            "parameters": {"epsilon": certified.epsilon, "delta": certified.delta},
            "unit": f"{change.label}: {change.relation}",
            "descriptions": list(guarantee.caveats),
        },
        "model": {"name": _MODEL[guarantee.trust], "actors": None},
        "accounting": {
            "composition": "of the Gaussian releases exactly, of pure ones by their epsilons;"
            f" {sum(line['times'] for line in card['releases'])} publications in all. What other"
            " releases of the same ratings spend is not in it",
            "post_processing": "everything in the file but directly published noisy answers:"
            f" {card['predictions'] or 'none'}",
            "releases": list(card["releases"]),
        },
        "implementation": {
            "library": "dpmc-lab",
            "version": versions.pop("dpmc-lab"),
            "sampler": sorted({line["noise"] for line in card["releases"]}),
            "randomness": card["randomness"],
            "dependencies": versions,
            "settings": dict(card["settings"]),
            "preparation": list(card["data"]["prepare"]),
        },
        "resources": {"documentation": None, "code": None, "data": catalogue["source"] or None},
    }
