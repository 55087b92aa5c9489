"""Admin sites: the usual one, one of a project's own that has jobs as well, and one that has schedules alone."""

from django.contrib import admin
from django.urls import path

from tinyjobs.admin import JobAdmin, ScheduleAdmin
from tinyjobs.models import Job, Schedule

backoffice = admin.AdminSite(name="backoffice")
backoffice.register(Job, JobAdmin)
backoffice.register(Schedule, ScheduleAdmin)

planning = admin.AdminSite(name="planning")
planning.register(Schedule, ScheduleAdmin)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("deep/er/backoffice/", backoffice.urls),
    path("planning/", planning.urls),
]
