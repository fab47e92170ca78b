"""ModelProxy: one endpoint between the agents of a run and the models, for agents that bring their own loop.

    async with ModelProxy(Endpoint(model="m", base_url="http://gpu:8000/v1", capture=True)) as proxy:
        lease = proxy.open(task_name="hello", trajectory=trajectory, rollout=rollout, budget=Budget(tokens=200_000))
        try:
            ...  # start the agent with lease.openai_base_url, .anthropic_base_url or .google_base_url, and .key
            ...  # wait for its end, or for lease.ended, after which the model answers nothing more
        finally:
            await lease.close()
        lease.raise_failure()          # ModelError: the endpoint failed, which is not the agent's doing
        lease.stop, lease.detail       # AgentStop.TOKEN_BUDGET, "200131 of 200000 tokens used"; None: no limit was met

What the agent speaks (OpenAI's chat completions or responses, Anthropic's messages, Google's Gemini; streamed or not)
becomes one chat completion, which is asked for upstream, and the answer is told in the agent's own dialect. On the way
every answer is written into the trial's trajectory and its sampled tokens into the rollout file; a conversation that
diverges from the first one (a sub-agent's, or a history that the agent rewrote) becomes an embedded trajectory of its
own.

Each trial has a lease: a base URL and a key that nobody can guess. The key stands in the agent's environment, so the
agent may read it; it opens nothing but the agent's own trial, and nothing once the lease is closed. A request without a
live key is answered 401 in its dialect and touches nothing.

A sandbox that cannot reach the host is served by a queue of files inside it instead (see `harness.proxy.queue`):

    async with relayed(lease, sandbox) as address:  # http://127.0.0.1:PORT in the sandbox; use address.key, .base_url
        ...

Needs the extra `proxy` (starlette, uvicorn, aiohttp), loaded when a proxy starts.
"""

from harness.proxy.budget import Budget
from harness.proxy.lease import Lease
from harness.proxy.queue.relay import relayed
from harness.proxy.service import ModelProxy
from harness.proxy.upstream.protocol import Upstream

__all__ = ["Budget", "Lease", "ModelProxy", "Upstream", "relayed"]
