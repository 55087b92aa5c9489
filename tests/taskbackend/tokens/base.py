from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    asked = 0

    def get_connection_params(self):
        type(self).asked += 1
        return {**super().get_connection_params(), "application_name": f"token {self.asked}"}
