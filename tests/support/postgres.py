"""A PostgreSQL of one's own, as its image makes it from its environment."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres(programs: Path, port: int, user: str, password: str, database: str) -> Iterator[None]:
    """It listens on this port of 127.0.0.1 until the end of the block.

    programs: the folder of `initdb` and `postgres`.
    """
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "password").write_text(password)
        # PostgreSQL does not run as root.
        who = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        if os.geteuid() == 0:
            for path in (place, place / "password"):
                shutil.chown(path, who)
        as_user = {"user": who} if os.geteuid() == 0 else {}
        make = [programs / "initdb", "--pgdata", place / "data", "--auth", "scram-sha-256"]
        make += ["--username", user, "--pwfile", place / "password", "--no-sync"]
        subprocess.run(make, check=True, capture_output=True, cwd=place, **as_user)
        settings = ("listen_addresses=127.0.0.1", f"port={port}", "fsync=off")
        command = [programs / "postgres", "-D", place / "data", "-k", place]
        command += [word for one in settings for word in ("-c", one)]
        with subprocess.Popen(command, cwd=place, stderr=subprocess.DEVNULL, **as_user) as process:
            try:
                create = [programs / "createdb", "-h", "127.0.0.1", "-p", str(port), "-U", user]
                login = {**os.environ, "PGPASSWORD": password}
                deadline = time.monotonic() + 600
                while subprocess.run(
                    [*create, database], env=login, capture_output=True, check=False
                ).returncode:
                    assert time.monotonic() < deadline
                    time.sleep(0.3)
                yield
            finally:
                # It ends its connections: asked to terminate, it would wait for who holds one.
                process.send_signal(signal.SIGINT)
