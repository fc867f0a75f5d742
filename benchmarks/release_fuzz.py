"""Damage released files in one of nine ways: they must be refused, or have the same arrays.

    python benchmarks/release_fuzz.py [COUNT] [--seed N]
    python benchmarks/release_fuzz.py --forged      # changed on purpose, with new digests

The script prints how many files with each damage were refused and accepted, every traceback, and
the slowest file. It ends with an error if a file is neither, if one takes over 2 s, or if a forgery
is accepted. It needs the extra 'release'.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from dpmc_core.errors import DpmcError
from dpmc_lab.study.release import export_release, write_release
from dpmc_lab.study.verify import verify_release
from tests.damaged import DAMAGES, verify_damaged
from tests.forgeries import BASES, forge_all, make_release
from tests.release_helpers import create_mechanism, load_release, make_ratings, save_release

SECONDS = 2.0
IDS = ("private-item-mean", "private-pgd", "randomised-response", "input-flip", "output")


def check_forgeries() -> bool:
    """Print a table of all forgeries by kind, and return whether one was accepted."""
    counts: Counter[tuple[str, str]] = Counter()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        for number, base in enumerate(BASES):
            sound_path, forged_path = Path(name) / f"{number}.npz", Path(name) / "forged.npz"
            write_release(make_release(base), sound_path)
            verify_release(sound_path)
            for kind, guarantee, arrays in forge_all(*load_release(sound_path)):
                save_release(forged_path, guarantee, arrays)
                try:
                    verify_release(forged_path)
                    counts[kind, "ACCEPTED"] += 1
                except DpmcError:
                    counts[kind, "refused"] += 1
                except Exception:
                    counts[kind, "WRONG"] += 1
                    print(f"--- {kind} of {base}\n{traceback.format_exc(limit=-4)}")
    print(f"{sum(counts.values()):,} forgeries in {time.perf_counter() - start:.0f} s")
    results = ("refused", "ACCEPTED", "WRONG")
    print(f"  {'kind':40}" + "".join(f"{result:>10}" for result in results))
    for kind in sorted({kind for kind, _ in counts}):
        print(f"  {kind:40}" + "".join(f"{counts[kind, result]:>10,}" for result in results))
    return any(result != "refused" for _, result in counts)


def main() -> None:
    """Verify damaged files, and print a table of the outcomes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=20_000, help="files (20000)")
    parser.add_argument("--seed", type=int, default=0, help="of the first file; then 1 more each")
    parser.add_argument("--forged", action="store_true", help="changed on purpose instead")
    args = parser.parse_args()
    if args.forged:
        sys.exit(check_forgeries())
    counts: Counter[tuple[str, str]] = Counter()
    slowest, start = (0.0, ""), time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        files = []
        for id in IDS:
            mechanism = create_mechanism(id, {})
            files.append(Path(name) / f"{id}.npz")
            write_release(export_release(mechanism, make_ratings(mechanism.task)), files[-1])
        for seed in range(args.seed, args.seed + args.count):
            rng, sound_path = Random(seed), files[seed % len(files)]
            damage = DAMAGES[seed // len(files) % len(DAMAGES)]
            start_time = time.process_time()
            try:
                result_text = verify_damaged(
                    sound_path, damage(sound_path.read_bytes(), rng), Path(name) / "damaged.npz"
                )
            except Exception:  # what a person would see as a traceback, or other numbers
                result_text = "WRONG"
                print(f"--- seed {seed}, {damage.__name__}\n{traceback.format_exc(limit=-4)}")
            seconds = time.process_time() - start_time
            result_text = "WRONG" if seconds > SECONDS else result_text
            slowest = max(slowest, (seconds, f"seed {seed}, {damage.__name__}"))
            counts[damage.__name__, result_text] += 1
    print(f"{args.count:,} files in {time.perf_counter() - start:.0f} s")
    results = ("refused", "accepted", "WRONG")
    print(f"  {'damaged by':12}" + "".join(f"{result:>10}" for result in results))
    for damage in DAMAGES:
        row = "".join(f"{counts[damage.__name__, result]:>10,}" for result in results)
        print(f"  {damage.__name__:12}{row}")
    print(f"slowest: {slowest[0]:.2f} s, {slowest[1]}")
    sys.exit(any(result == "WRONG" for _, result in counts))


if __name__ == "__main__":
    main()
