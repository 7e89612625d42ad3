"""Programs that stay open and run a block of turns at a time."""
import json
import subprocess


# The turns of a block.
TURNS = 100


class Blocks:
    """A program that runs a block of turns for each line."""

    def __init__(self, *command):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def block(self):
        self.child.stdin.write("\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())["wall_s"]

    def end(self):
        self.child.stdin.close()
        self.child.stdout.read()
        assert self.child.wait() == 0
