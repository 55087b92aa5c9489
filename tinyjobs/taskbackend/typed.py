"""Names for Django's task types as the type checker knows them.

The stubs make them generic; at run time they are not, so they cannot be given arguments there.
"""

from typing import TYPE_CHECKING, Any

from django.tasks import Task as DjangoTask
from django.tasks import TaskContext, TaskResult

type AnyTask = DjangoTask[..., Any]
type AnyResult = TaskResult[..., Any]
type AnyContext = TaskContext[..., Any]

if TYPE_CHECKING:
    TaskBase = DjangoTask[..., Any]
    ResultBase = TaskResult[..., Any]
else:
    TaskBase = DjangoTask
    ResultBase = TaskResult
