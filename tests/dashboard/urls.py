"""Two admin sites: the usual one, and one of a project's own that has jobs as well."""

from django.contrib import admin
from django.urls import path

from tinyjobs.admin import JobAdmin, ScheduleAdmin
from tinyjobs.models import Job, Schedule

backoffice = admin.AdminSite(name="backoffice")
backoffice.register(Job, JobAdmin)
backoffice.register(Schedule, ScheduleAdmin)

urlpatterns = [path("admin/", admin.site.urls), path("deep/er/backoffice/", backoffice.urls)]
