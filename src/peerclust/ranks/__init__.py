"""The processes of a job: their group, and the distribution of users over them."""
