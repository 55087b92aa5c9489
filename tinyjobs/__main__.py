"""`python -m tinyjobs`: the same program as the installed command `tinyjobs`."""

from tinyjobs.cli.main import run

if __name__ == "__main__":
    run()
