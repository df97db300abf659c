"""The user-facing layer: recipes, the pipeline, the Prefect flow and the command line."""

import os

# GNU OpenMP's threads wait for each other by spinning, so two trainings on the same cores slow
# each other tenfold and more (docs/measurements.md, "Beside another program"). With this setting
# they sleep after a few microseconds. Torch reads it once, on loading: set it before other imports.
if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
    os.environ["GOMP_SPINCOUNT"] = "3000"
