"""Modal's control plane and task command router on loopback: the gRPC that the unmodified SDK speaks, over real boxes.

One grpclib server on one port answers both services. Every image is a folder made of what the SDK sent (the lines of
the Dockerfile and the mounted context), every sandbox a box, every exec a real process in it. `Fault`s break single
calls in the ways that the real service does.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplanes.localbox import Box, Process
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message_factory import GetMessageClass
from grpclib import GRPCError, Status
from grpclib.const import Cardinality, Handler
from grpclib.server import Server
from grpclib.server import Stream as ServerStream
from modal_proto import api_pb2 as api
from modal_proto import task_command_router_pb2 as router

from backends.local.image import ImagePlan, read_dockerfile

TOKEN_ID, TOKEN_SECRET = "ak-loopback", "as-loopback-secret"
BUILDER_VERSION = "2025.06"

_SERVICES = (api.DESCRIPTOR.services_by_name["ModalClient"], router.DESCRIPTOR.services_by_name["TaskCommandRouter"])
_CHUNK = 64 << 10

Stream = ServerStream[Any, Any]
Result = api.GenericResult

_SUCCESS = Result(status=Result.GENERIC_STATUS_SUCCESS)
_IMAGE = api.ImageMetadata(image_builder_version=BUILDER_VERSION)


@dataclass(slots=True, kw_only=True)
class Fault:
    """What goes wrong with the next `times` calls of one name: a delay, then a hang, a reset, or an error.

    `late` carries the call out all the same, after the delay and whether or not the client still listens, as when an
    answer is lost on its way. `after` bytes of output are sent before a stream breaks.
    """

    status: Status | None = None
    message: str = "injected"
    delay: float = 0.0
    hang: bool = False
    reset: bool = False
    late: bool = False
    after: int = 0
    times: int = 1 << 30


@dataclass(slots=True, kw_only=True)
class _Exec:
    process: Process
    stdin: asyncio.StreamWriter
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    closed: bool = False
    stdin_bytes: int = 0
    stdin_closed: bool = False
    code: int | None = None
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class _Sandbox:
    id: str
    task_id: str
    app_id: str
    box: Box
    definition: api.Sandbox
    tags: dict[str, str]
    created_at: float
    plan: ImagePlan
    result: Result | None = None
    execs: dict[str, _Exec] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class _Server(Server):
    """One whose connections end with it."""

    def __init__(self, plane: ModalPlane) -> None:
        super().__init__([plane])
        self.protocols: list[Any] = []

    def _protocol_factory(self) -> Any:
        protocol = super()._protocol_factory()
        self.protocols.append(protocol)
        return protocol

    async def end(self) -> None:
        self.close()
        for protocol in self.protocols:
            if hasattr(protocol, "connection"):
                protocol.connection.close()
        await asyncio.sleep(0.02)


class ModalPlane:
    """The server. `faults` maps a call's name to what is wrong with it; `calls` counts them."""

    def __init__(self, *, latency: float = 0.0) -> None:
        self.latency = latency
        self.faults: dict[str, Fault] = {}
        self.calls: Counter[str] = Counter()
        self.sandboxes: dict[str, _Sandbox] = {}
        self.builds: Counter[str] = Counter()
        self.build_result: Result | None = None
        self.build_seconds = 0.0
        self._ends: list[asyncio.Task[None]] = []
        self._late: list[asyncio.Task[None]] = []
        self._answers: dict[Any, asyncio.Future[Any]] = {}
        self._files: dict[str, bytes] = {}
        self._mounts: dict[str, list[api.MountFile]] = {}
        self._images: dict[str, api.Image] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="modal-plane-")
        self._server = _Server(self)
        self._count = 0
        self.url = ""

    async def start(self) -> None:
        await self._server.start("127.0.0.1", 0, backlog=1024)
        port = self._server._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        self.url = f"http://127.0.0.1:{port}"

    async def close(self) -> None:
        pending = [*self._late, *self._answers.values()]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for sandbox in list(self.sandboxes.values()):
            await self._end(sandbox, Result(status=Result.GENERIC_STATUS_TERMINATED))
        await asyncio.gather(*self._ends)
        await self._server.end()
        self._folder.cleanup()

    @property
    def env(self) -> dict[str, str]:
        """What the SDK needs to find this server and nothing else."""
        return {
            "MODAL_SERVER_URL": self.url,
            "MODAL_TOKEN_ID": TOKEN_ID,
            "MODAL_TOKEN_SECRET": TOKEN_SECRET,
        }

    @property
    def alive(self) -> list[str]:
        """Ids of the sandboxes that run."""
        return [sandbox.id for sandbox in self.sandboxes.values() if sandbox.result is None]

    async def kill(self, sandbox_id: str, status: int = Result.GENERIC_STATUS_INTERNAL_FAILURE) -> None:
        """End a sandbox as its worker would: without being asked."""
        await self._end(self.sandboxes[sandbox_id], Result(status=status, exitcode=137))  # type: ignore[arg-type]

    # The transport

    def __mapping__(self) -> dict[str, Handler]:
        """What this class answers, of all that the SDK's own description of the two services has."""
        return {
            f"/{service.full_name}/{method.name}": self._handler(method)
            for service in _SERVICES
            for method in service.methods
            if hasattr(self, method.name)
        }

    def _handler(self, method: Any) -> Handler:
        name, answer = method.name, getattr(self, method.name)
        cardinality = Cardinality((method.client_streaming, method.server_streaming))

        async def unary(stream: Stream) -> None:
            request = await stream.recv_message()
            fault = await self._arrive(name, stream)
            if fault is None:
                await stream.send_message(await self._answer(answer, request, stream))
                return
            if fault.late:
                self._late.append(asyncio.create_task(self._carry_out(answer, request, stream, fault.delay)))
            await self._break(fault, stream)
            await stream.send_message(await self._answer(answer, request, stream))

        async def other(stream: Stream) -> None:
            fault = await self._arrive(name, stream)
            if fault is not None and not fault.after:
                await self._break(fault, stream)
            await answer(stream, fault)

        function = unary if cardinality is Cardinality.UNARY_UNARY else other
        return Handler(function, cardinality, GetMessageClass(method.input_type), GetMessageClass(method.output_type))

    async def _arrive(self, name: str, stream: Stream) -> Fault | None:
        """Count the call, check its credentials, and return what is wrong with it."""
        self.calls[name] += 1
        self._authenticate(stream)
        if self.latency:
            await asyncio.sleep(self.latency)
        fault = self.faults.get(name)
        if fault is None or fault.times <= 0:
            return None
        fault.times -= 1
        return fault

    async def _break(self, fault: Fault, stream: Stream) -> None:
        """Act a fault out; returns where it was only a delay."""
        if fault.delay and not fault.late:
            await asyncio.sleep(fault.delay)
        if fault.hang:
            await asyncio.Event().wait()
        if fault.reset:
            stream._stream._transport.abort()
            await asyncio.Event().wait()
        if fault.status is not None:
            raise GRPCError(fault.status, fault.message)

    async def _carry_out(self, answer: Any, request: Any, stream: Stream, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._answer(answer, request, stream)

    async def _answer(self, answer: Any, request: Any, stream: Stream) -> Any:
        """The answer to a request; to one that is repeated, the answer that it had."""
        key = stream.metadata.get("x-idempotency-key") if stream.metadata is not None else None
        if key is None:
            return await answer(request)
        if key not in self._answers:
            self._answers[key] = asyncio.ensure_future(answer(request))
        return await asyncio.shield(self._answers[key])

    def _authenticate(self, stream: Stream) -> None:
        metadata = stream.metadata
        assert metadata is not None
        secret = metadata.get("x-modal-token-secret")
        if secret is not None and secret != TOKEN_SECRET:
            raise GRPCError(Status.UNAUTHENTICATED, "Token validation failed")

    def _next(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count}"

    # Apps, environments, images

    async def ClientHello(self, request: Empty) -> api.ClientHelloResponse:
        return api.ClientHelloResponse()

    async def AuthTokenGet(self, request: api.AuthTokenGetRequest) -> api.AuthTokenGetResponse:
        return api.AuthTokenGetResponse(token=_jwt())

    async def AppGetOrCreate(self, request: api.AppGetOrCreateRequest) -> api.AppGetOrCreateResponse:
        return api.AppGetOrCreateResponse(app_id="ap-" + hashlib.sha256(request.app_name.encode()).hexdigest()[:8])

    async def EnvironmentGetOrCreate(
        self, request: api.EnvironmentGetOrCreateRequest
    ) -> api.EnvironmentGetOrCreateResponse:
        settings = api.EnvironmentSettings(image_builder_version=BUILDER_VERSION)
        return api.EnvironmentGetOrCreateResponse(
            environment_id="en-1", metadata=api.EnvironmentMetadata(name="main", settings=settings)
        )

    async def MountBatchedCheckExistence(
        self, request: api.MountBatchedCheckExistenceRequest
    ) -> api.MountBatchedCheckExistenceResponse:
        missing = [digest for digest in request.sha256_hex_hashes if digest not in self._files]
        return api.MountBatchedCheckExistenceResponse(missing_sha256_hex_hashes=missing)

    async def MountPutFile(self, request: api.MountPutFileRequest) -> api.MountPutFileResponse:
        self._files[request.sha256_hex] = request.data
        return api.MountPutFileResponse(exists=True)

    async def MountGetOrCreate(self, request: api.MountGetOrCreateRequest) -> api.MountGetOrCreateResponse:
        mount_id = self._next("mo")
        self._mounts[mount_id] = list(request.files)
        return api.MountGetOrCreateResponse(mount_id=mount_id, handle_metadata=api.MountHandleMetadata())

    async def ImageGetOrCreate(self, request: api.ImageGetOrCreateRequest) -> api.ImageGetOrCreateResponse:
        files = sorted(
            (file.filename, file.sha256_hex, file.mode) for file in self._mounts.get(request.image.context_mount_id, ())
        )
        bases = [base.image_id for base in request.image.base_images]
        key = json.dumps([list(request.image.dockerfile_commands), files, bases])
        image_id = "im-" + hashlib.sha256(key.encode()).hexdigest()[:20]
        if image_id in self._images and self.build_result is None:
            return self._built(image_id)
        self.builds[image_id] += 1
        self._images[image_id] = request.image
        if self.build_seconds or self.build_result is not None:
            return api.ImageGetOrCreateResponse(image_id=image_id)  # the client joins the build
        return self._built(image_id)

    def _built(self, image_id: str) -> api.ImageGetOrCreateResponse:
        return api.ImageGetOrCreateResponse(
            image_id=image_id,
            result=_SUCCESS,
            metadata=_IMAGE,
        )

    async def ImageJoinStreaming(self, stream: Stream, fault: Fault | None) -> None:
        await stream.recv_message()
        log = api.TaskLogs(data="Step 1: RUN make\n", file_descriptor=api.FILE_DESCRIPTOR_STDOUT)
        await stream.send_message(api.ImageJoinStreamingResponse(task_logs=[log], entry_id="1"))
        await asyncio.sleep(self.build_seconds)
        result = self.build_result or _SUCCESS
        await stream.send_message(
            api.ImageJoinStreamingResponse(result=result, entry_id="2", eof=True, metadata=_IMAGE)
        )

    def _context(self, image_id: str) -> Path:
        """The image as a folder with a Dockerfile, made of what was uploaded."""
        folder = Path(self._folder.name, image_id)
        if folder.exists():
            return folder
        draft = Path(tempfile.mkdtemp(dir=self._folder.name))
        image = self._images[image_id]
        lines = list(image.dockerfile_commands)
        for base in image.base_images:  # one layer upon another
            shutil.copytree(self._context(base.image_id), draft, dirs_exist_ok=True)
            below = (draft / "Dockerfile").read_text().splitlines()
            lines = [*below, *(line for line in lines if line != f"FROM {base.docker_tag}")]
        for file in self._mounts.get(image.context_mount_id, ()):
            path = draft / file.filename.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._files[file.sha256_hex])
            path.chmod(file.mode & 0o777 or 0o644)
        (draft / "Dockerfile").write_text("\n".join(lines) + "\n")
        draft.replace(folder)
        return folder

    # Sandboxes

    async def SandboxCreateV2(self, request: api.SandboxCreateV2Request) -> api.SandboxCreateV2Response:
        definition = request.definition
        if definition.image_id not in self._images:
            raise GRPCError(Status.NOT_FOUND, f"Image {definition.image_id} not found")
        closed = definition.network_access.network_access_type == api.NetworkAccess.BLOCKED
        plan = read_dockerfile(self._context(definition.image_id))
        box = await Box.start(directories=[*plan.directories, plan.workdir], network=not closed)
        for copy in plan.copies:
            await box.files.upload(copy.source, copy.target)
            if copy.mode is not None:
                await box.files.chmod(copy.target, copy.mode)
        sandbox_id = self._next("sb")
        sandbox = _Sandbox(
            id=sandbox_id,
            task_id=f"ta-{sandbox_id}V",
            app_id=request.app_id,
            box=box,
            definition=definition,
            tags={tag.tag_name: tag.tag_value for tag in request.tags},
            created_at=time.time(),
            plan=plan,
        )
        self.sandboxes[sandbox_id] = sandbox
        sandbox.tasks.append(asyncio.create_task(self._live(sandbox)))
        return api.SandboxCreateV2Response(
            sandbox_id=sandbox_id,
            task_id=sandbox.task_id,
            metadata=api.SandboxHandleMetadata(app_id=request.app_id),
            command_router_access=api.CommandRouterAccess(url=self.url, jwt=_jwt()),
        )

    async def _live(self, sandbox: _Sandbox) -> None:
        """A sandbox ends with its entrypoint, or when its time is up."""
        process = sandbox.box.run(list(sandbox.definition.entrypoint_args), env=sandbox.plan.env, cwd="/")
        status = Result.GENERIC_STATUS_SUCCESS
        code = 0
        try:
            async with asyncio.timeout(sandbox.definition.timeout_secs or None):
                code = await process.exit_code()
        except TimeoutError:
            status = Result.GENERIC_STATUS_TIMEOUT
        sandbox.tasks.clear()
        await self._end(sandbox, Result(status=status, exitcode=code))

    async def _end(self, sandbox: _Sandbox, result: Result) -> None:
        if sandbox.result is not None:
            return
        sandbox.result = result
        end = asyncio.create_task(self._tear_down(sandbox))  # to its end, whoever asked for it and is gone
        self._ends.append(end)
        await asyncio.shield(end)

    async def _tear_down(self, sandbox: _Sandbox) -> None:
        for task in sandbox.tasks:
            task.cancel()
        await sandbox.box.stop()
        for run in sandbox.execs.values():
            run.stdin.close()
            for task in run.tasks:
                task.cancel()
            async with run.changed:
                run.changed.notify_all()

    def _find(self, sandbox_id: str) -> _Sandbox:
        sandbox = self.sandboxes.get(sandbox_id)
        if sandbox is None:
            raise GRPCError(Status.NOT_FOUND, f"Sandbox {sandbox_id} not found")
        return sandbox

    async def SandboxListV2(self, request: api.SandboxListRequest) -> api.SandboxListResponse:
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        found = [
            sandbox
            for sandbox in self.sandboxes.values()
            if (request.include_finished or sandbox.result is None)
            and request.app_id in ("", sandbox.app_id)
            and wanted.items() <= sandbox.tags.items()
            and (not request.before_timestamp or sandbox.created_at < request.before_timestamp)
        ]
        found.sort(key=lambda sandbox: -sandbox.created_at)
        return api.SandboxListResponse(
            sandboxes=[
                api.SandboxInfo(
                    id=sandbox.id,
                    created_at=sandbox.created_at,
                    app_id=sandbox.app_id,
                    tags=_tags(sandbox),
                    metadata=api.SandboxHandleMetadata(app_id=sandbox.app_id),
                )
                for sandbox in found[:100]
            ]
        )

    async def SandboxTagsGetV2(self, request: api.SandboxTagsGetRequest) -> api.SandboxTagsGetResponse:
        return api.SandboxTagsGetResponse(tags=_tags(self._find(request.sandbox_id)))

    async def SandboxTerminateV2(self, request: api.SandboxTerminateRequest) -> api.SandboxTerminateResponse:
        sandbox = self._find(request.sandbox_id)
        await self._end(sandbox, Result(status=Result.GENERIC_STATUS_TERMINATED))
        return api.SandboxTerminateResponse()

    async def SandboxWaitV2(self, request: api.SandboxWaitRequest) -> api.SandboxWaitResponse:
        sandbox = self._find(request.sandbox_id)
        deadline = time.monotonic() + request.timeout
        while sandbox.result is None and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        return api.SandboxWaitResponse(result=sandbox.result, metadata=api.SandboxHandleMetadata(app_id=sandbox.app_id))

    async def SandboxGetTaskIdV2(self, request: api.SandboxGetTaskIdRequest) -> api.SandboxGetTaskIdResponse:
        sandbox = self._find(request.sandbox_id)
        if sandbox.result is not None:
            return api.SandboxGetTaskIdResponse(task_result=sandbox.result)
        return api.SandboxGetTaskIdResponse(task_id=sandbox.task_id)

    async def SandboxGetCommandRouterAccess(
        self, request: api.SandboxGetCommandRouterAccessRequest
    ) -> api.SandboxGetCommandRouterAccessResponse:
        sandbox = self._find(request.sandbox_id)
        if sandbox.result is not None:
            raise GRPCError(Status.FAILED_PRECONDITION, f"Sandbox {sandbox.id} has already finished")
        return api.SandboxGetCommandRouterAccessResponse(url=self.url, jwt=_jwt())

    # Commands

    def _task(self, task_id: str) -> _Sandbox:
        sandbox = self.sandboxes.get(task_id.removeprefix("ta-").removesuffix("V"))
        if sandbox is None or sandbox.result is not None:
            raise GRPCError(Status.NOT_FOUND, f"Task {task_id} not found")
        return sandbox

    def _exec(self, task_id: str, exec_id: str) -> _Exec:
        run = self._task(task_id).execs.get(exec_id)
        if run is None:
            raise GRPCError(Status.NOT_FOUND, f"Exec {exec_id} not found")
        return run

    async def TaskExecStart(self, request: router.TaskExecStartRequest) -> router.TaskExecStartResponse:
        sandbox = self._task(request.task_id)
        if request.exec_id in sandbox.execs:
            return router.TaskExecStartResponse()
        env = {**sandbox.plan.env, **request.env}
        for source in request.secret_sources:
            env.update(source.env.contents)
        process, stdin = await _spawn(sandbox, list(request.command_args), env, request.workdir or sandbox.plan.workdir)
        run = _Exec(process=process, stdin=stdin)
        sandbox.execs[request.exec_id] = run
        run.tasks = [
            asyncio.create_task(_collect(run)),
            asyncio.create_task(_watch(run, request.timeout_secs or None)),
        ]
        return router.TaskExecStartResponse()

    async def TaskExecStdioRead(self, stream: Stream, fault: Fault | None) -> None:
        request = await stream.recv_message()
        run = self._exec(request.task_id, request.exec_id)
        data = run.out if request.file_descriptor == router.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT else run.err
        offset = request.offset
        while True:
            async with run.changed:
                while offset >= len(data) and not run.closed:
                    self._task(request.task_id)
                    await run.changed.wait()
            self._task(request.task_id)
            if offset >= len(data):
                break
            chunk = bytes(data[offset : offset + (fault.after if fault else _CHUNK)])
            offset += len(chunk)
            await stream.send_message(router.TaskExecStdioReadResponse(data=chunk))
            if fault is not None:
                await self._break(fault, stream)
        if not offset:  # an empty stream is a stream all the same
            await stream.send_initial_metadata()

    async def TaskExecWait(self, request: router.TaskExecWaitRequest) -> router.TaskExecWaitResponse:
        run = self._exec(request.task_id, request.exec_id)
        async with run.changed:
            while run.code is None:
                self._task(request.task_id)
                await run.changed.wait()
        if run.code < 0:
            return router.TaskExecWaitResponse(signal=-run.code)
        return router.TaskExecWaitResponse(code=run.code)

    async def TaskExecPoll(self, request: router.TaskExecPollRequest) -> router.TaskExecPollResponse:
        run = self._exec(request.task_id, request.exec_id)
        return router.TaskExecPollResponse() if run.code is None else router.TaskExecPollResponse(code=run.code)

    async def TaskExecStdinWrite(self, request: router.TaskExecStdinWriteRequest) -> router.TaskExecStdinWriteResponse:
        run = self._exec(request.task_id, request.exec_id)
        await _feed(run, request.offset, request.data, eof=request.eof)
        return router.TaskExecStdinWriteResponse()

    async def TaskExecStdinStatus(
        self, request: router.TaskExecStdinStatusRequest
    ) -> router.TaskExecStdinStatusResponse:
        run = self._exec(request.task_id, request.exec_id)
        return router.TaskExecStdinStatusResponse(num_bytes_written=run.stdin_bytes, closed=run.stdin_closed)

    async def TaskExecStdinWriteStream(self, stream: Stream, fault: Fault | None) -> None:
        run: _Exec | None = None
        async for message in stream:
            if message.HasField("start"):
                run = self._exec(message.start.task_id, message.start.exec_id)
            elif run is not None:
                await _feed(run, run.stdin_bytes, message.data, eof=message.HasField("end"))
        await stream.send_message(router.TaskExecStdinWriteStreamResponse())


async def _spawn(
    sandbox: _Sandbox, argv: list[str], env: Mapping[str, str], cwd: str
) -> tuple[Process, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    read_end, write_end = os.pipe()
    try:
        process = sandbox.box.run(argv, env=env, cwd=cwd, stdin=read_end)
    finally:
        os.close(read_end)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(write_end, "wb", buffering=0)
    )
    return process, asyncio.StreamWriter(transport, protocol, None, loop)


async def _feed(run: _Exec, offset: int, data: bytes, *, eof: bool) -> None:
    """Write what was not written before; a process that has stopped reading loses the rest."""
    fresh = data[max(0, run.stdin_bytes - offset) :]
    with suppress(ConnectionError, RuntimeError):
        if fresh and not run.stdin_closed:
            run.stdin.write(fresh)
            await run.stdin.drain()
    run.stdin_bytes += len(fresh)
    if eof and not run.stdin_closed:
        run.stdin_closed = True
        run.stdin.close()


async def _collect(run: _Exec) -> None:
    async for stream, data in run.process.output():
        async with run.changed:
            target = run.out if stream == "stdout" else run.err
            target += data
            run.changed.notify_all()
    async with run.changed:
        run.closed = True
        run.changed.notify_all()


async def _watch(run: _Exec, limit: float | None) -> None:
    try:
        async with asyncio.timeout(limit):
            code = await run.process.exit_code()
    except TimeoutError:
        run.process.kill()
        code = await run.process.exit_code()
    run.stdin.close()
    async with run.changed:
        run.code = code
        run.changed.notify_all()


def _tags(sandbox: _Sandbox) -> list[api.SandboxTag]:
    return [api.SandboxTag(tag_name=name, tag_value=value) for name, value in sandbox.tags.items()]


def _jwt() -> str:
    def part(fields: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part({'exp': time.time() + 3600})}.x"


@asynccontextmanager
async def modal_plane(**options: Any) -> AsyncIterator[ModalPlane]:
    """A running server that is closed, with everything in it, on the way out."""
    plane = ModalPlane(**options)
    await plane.start()
    try:
        yield plane
    finally:
        await plane.close()
