"""Keep the tables of a full reproduction for the documentation.

    itofit reproduce -o DIRECTORY
    python benchmarks/reproduction.py DIRECTORY

Results go to benchmarks/results/reproduction.json and reproduction_claim.json; `runs.csv` beside them has every run.
"""

import argparse
import shutil
from pathlib import Path

from common import RESULTS, write_results

from itofit.experiments.reproduction_page import machine
from itofit.experiments.result_tables import results_table, rows_of, verdict_table, verdicts
from itofit.experiments.results import Results


def dictionaries(heads, cells):
    return [dict(zip(heads, row, strict=True)) for row in cells]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    runs = Results(directory, False).all()
    more = {"machine": machine(), "versions": sorted({run.versions for run in runs})}
    write_results("reproduction", dictionaries(*results_table(rows_of(runs), runs)), **more)
    write_results("reproduction_claim", dictionaries(*verdict_table(verdicts(runs))), **more)
    shutil.copyfile(directory / "runs.csv", RESULTS / "reproduction_runs.csv")


if __name__ == "__main__":
    main()
