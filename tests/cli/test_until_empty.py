"""`worker --until-empty`, from either door: what hooks and receivers of signals send is run before it is done."""

HOOK = """
@app.on_job_success
def follow(job, result, seconds):
    if job.task == "work.note" and result != "last":
        # The outcome has been recorded long since, and the worker finds nothing else to do.
        threading.Event().wait(0.5)
        note.enqueue("middle" if result == "first" else "last")
"""

RECEIVER = """
import threading
from django.dispatch import receiver
from django.tasks.signals import task_finished

said = ["middle", "last"]

@receiver(task_finished)
def follow(sender, task_result, **kwargs):
    if said:
        threading.Event().wait(0.5)
        note.enqueue(said.pop(0))
"""


def test_what_hooks_send_is_run(program, jobs):
    path = program.folder / "work.py"
    path.write_text(path.read_text() + HOOK)
    jobs.send("work.note", ["first"])
    status, output = program.run("worker", "--until-empty")
    assert (status, output.splitlines()[-1]) == (0, "Done: 3 jobs ran, 0 failed, 0 wait for later.")
    assert (program.folder / "ran.txt").read_text() == "first\nmiddle\nlast\n"


def test_what_receivers_of_signals_send_is_run(project):
    path = project.folder / "shop/tasks.py"
    path.write_text(path.read_text() + RECEIVER)
    project.lay_out()
    project.send('tasks.note.enqueue("first")')
    status, output = project.run("tinyjobs", "worker", "--until-empty")
    assert (status, output.splitlines()[-1]) == (0, "Done: 3 jobs ran, 0 failed, 0 wait for later.")
    assert (project.folder / "ran.txt").read_text() == "first\nmiddle\nlast\n"
