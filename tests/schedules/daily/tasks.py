"""Tasks with schedules, and some for schedules by name."""

from tinyjobs import task

ran = []


@task(cron="25 8-16 * * *", takes_context=True)
def close_day(context):
    ran.append(("close_day", context.task_result.scheduled_for))


@task(cron="0 9 * * *", timezone="America/New_York", misfire="run_all", overlap=True, priority=5)
async def greet():
    ran.append(("greet", None))


@task(max_attempts=3)
def post(number, *, to="all"):
    ran.append(("post", number, to))
