"""`tercet` as scripts: trainings that stand still to be killed, and that say where they began."""

# The command line, with a checkpoint every two steps; it stands still at step 6 of one phase.
STOPPING = """
import dataclasses, functools, sys, time
from pathlib import Path
from tercet.flows.cli import main
from tercet.models.training import loop, train_encoder

phase, marker = sys.argv.pop(1), Path(sys.argv.pop(1))
train = train_encoder.train

def stopping(module, batches, step, numbers, setting, **more):
    def progress(done, total, unit):
        if numbers.name == phase and done == 6:
            marker.touch()
            time.sleep(3600)
    own = dataclasses.replace(setting, checkpoint_steps=2, log_steps=2, progress=progress)
    return train(module, batches, step, numbers, own, **more)

train_encoder.train = stopping
main()
"""
# What such a run resumes from, said at the first step that it takes.
TELLING = """
import dataclasses, sys
from tercet.flows.cli import main
from tercet.models.training import train_encoder

train = train_encoder.train

def telling(module, batches, step, numbers, setting, **more):
    taken = []
    def progress(done, total, unit):
        taken.append(done)
    own = dataclasses.replace(setting, checkpoint_steps=2, log_steps=2, progress=progress)
    log = train(module, batches, step, numbers, own, **more)
    print(f"FIRST {numbers.name} {taken[0]}", file=sys.stderr)
    return log

train_encoder.train = telling
main()
"""
