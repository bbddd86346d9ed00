"""Missions as a Locust file, for teams that have one. In the plan: `{run: locust, file: locustfile.py, users: 200}`.

The target is the plan's; a host in this file is not used.
"""

import random
import uuid

from locust import HttpUser, between, task


class Customer(HttpUser):
    """Asks for money back, and seldom for more than the agent may give."""

    wait_time = between(0.1, 0.5)

    @task(4)
    def incident(self) -> None:
        self.ask(f"My parcel never came, please give me the money back for order #{random.randint(1000, 9999)}")  # noqa: S311  # no secret

    @task(1)
    def over_the_limit(self) -> None:
        self.ask(f"I want $5000 back for order #{random.randint(1000, 9999)}", force_refund_limit=True)  # noqa: S311  # no secret

    def ask(self, text: str, **metadata: bool) -> None:
        body = {"user_id": str(uuid.uuid4()), "history": [{"role": "user", "content": text}], "metadata": metadata}
        self.client.post("/agent/mission", json=body)
