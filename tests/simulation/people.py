"""Those who use the store beside the workers: who sends jobs, and who cancels, retries and deletes them."""

import asyncio
from typing import TYPE_CHECKING

from tinyjobs.core.errors import StoreError
from tinyjobs.core.job import Job

if TYPE_CHECKING:
    from tests.simulation.world import World


async def send(world: "World", name: str) -> None:
    """Send jobs now and then, alone and in bulk; what was not answered is sent again, as other jobs or by the key."""
    link, dice, book = world.link(), world.random, world.book
    for _ in range(dice.choice([3, 6, 12])):
        pause = dice.random() * 4.0
        # On whole seconds, several send at the very same moment.
        await asyncio.sleep(round(pause) if world.is_in_step else pause)
        jobs = [make_job(world) for _ in range(dice.choice([1, 1, 1, 3]))]
        book.write(name, "sends " + ", ".join(job.id[:8] for job in jobs))
        for _ in range(3):
            try:
                kept = await link.enqueue_many(jobs) if len(jobs) > 1 else [await link.enqueue(jobs[0])]
            except StoreError:
                jobs = [make_job(world, like=job) for job in jobs]
                continue
            except BaseException as error:
                book.failed(error)
                return
            book.acknowledged.update(job.id for job in kept if job.id in book.jobs)
            break


def make_job(world: "World", like: Job | None = None) -> Job:
    dice, now = world.random, world.clock.now()
    delay = dice.choice([0.0, 0.0, 0.0, 3.0, 20.0])
    expires = dice.choice([None, None, None, 1.0, 10.0])
    return Job(
        id=world.ids.next(),
        task=like.task if like else dice.choice(["steady", "steady", "timed", "shaky"]),
        queue=dice.choice(["a", "b"]),
        priority=dice.choice([0, 0, 5]),
        max_attempts=dice.choice([1, 3, 8]),
        run_at=now + delay,
        created_at=now,
        expires_at=None if expires is None else now + delay + expires,
        key=like.key if like else dice.choice(world.keys),
        payload=world.codec.encode_call((), {}),
    )


async def operate(world: "World") -> None:
    """Cancel, retry and delete jobs at random."""
    link, dice, book = world.link(), world.random, world.book
    for _ in range(world.dice.choice([0, 0, 3, 8])):
        await asyncio.sleep(dice.random() * 10.0)
        if not book.jobs:
            continue
        job_id = dice.choice(sorted(book.jobs))
        verb = dice.choice(["cancel", "requeue", "delete"])
        try:
            answer = await getattr(link, verb)(job_id)
        except StoreError as error:
            book.write("operator", f"{verb} {job_id[:8]}: {error}")
        except BaseException as error:
            book.failed(error)
            return
        else:
            book.write("operator", f"{verb} {job_id[:8]}: {answer}")
