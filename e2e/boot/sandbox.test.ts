import { spawnSync } from "node:child_process"
import { once } from "node:events"
import { readFileSync, writeFileSync } from "node:fs"
import { request } from "node:http"
import { join } from "node:path"
import type { BackendEvent } from "@berth/backends/backend"
import { readActivity } from "@berth/bridge/read-activity"
import { BootTrace } from "@berth/protocol/boot"
import type { EventBody } from "@berth/protocol/event"
import type { SandboxId } from "@berth/protocol/ids"
import { SHARED } from "@berth/protocol/shared-directory"
import { WorkspaceSpec, type WorkspaceSpecInput } from "@berth/protocol/workspace"
import {
  findSharedDirectories,
  type SharedDirectory,
} from "@berth/server/sandboxes/state/shared-directories"
import { BERTH } from "@berth/testing/berth"
import { sampled } from "@berth/testing/sampled"
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest"
import { BACKENDS, type BackendName, choiceOf, describeOn } from "../backends.ts"
import { makeRepo, processesOf, setStage } from "./stage.ts"

/** Covers the making of a toolbox, and boots beside other tests. */
const STAGE_DEADLINE_MS = 120_000
const { signal } = new AbortController()

/** Posts to the supervisor, and returns the status of its answer. */
const post = async ({ socket, token }: SharedDirectory, path: string, body: object) => {
  const headers = { authorization: `Bearer ${token}` }
  const sent = request({ socketPath: socket, path, headers, method: "POST", agent: false })
  sent.end(JSON.stringify(body))
  const [response] = await once(sent, "response")
  response.resume()
  return response.statusCode
}

/** Kills every `sleep` without pkill, which not every image has. */
const KILL_SLEEPS =
  'for stat in /proc/[0-9]*/stat; do read -r pid name rest < $stat; [ "$name" = "(sleep)" ] && kill $pid; done'

/** Cases of a sandbox with its supervisor, run on each backend. */
const describeSandbox = (backend: BackendName): void => {
  let stage: Awaited<ReturnType<typeof setStage>>
  let repo: string
  beforeAll(async () => {
    stage = await setStage(signal, await choiceOf(backend))
    repo = makeRepo(join(stage.base, "app"), {
      README: "hello\n",
      ".berth/setup.sh": "#!/bin/sh\necho setup >> order\n",
      ".berth/start.sh": "#!/bin/sh\necho start >> order\n",
    })
  }, STAGE_DEADLINE_MS)
  afterAll(() => stage.close(), STAGE_DEADLINE_MS)

  const workspace = (spec: Partial<WorkspaceSpecInput> = {}) =>
    WorkspaceSpec.parse({
      slug: "app",
      network: { kind: "none" },
      repos: [{ url: repo }],
      ...spec,
    })
  const isOver = ({ type }: EventBody) => type === "boot.ready" || type === "boot.ending"
  const boot = async (
    spec: Partial<WorkspaceSpecInput> = {},
    mode: "fresh" | "restore" = "fresh",
  ) => {
    const sandbox = await stage.standalone.launch(workspace(spec), mode)
    onTestFinished(() => sandbox.remove())
    expect(await sandbox.until(isOver)).toMatchObject({ type: "boot.ready" })
    expect(processesOf(sandbox.id)).not.toEqual([])
    return sandbox
  }
  const isSupervisor = (command: string) =>
    /^\/opt\/berth\/bin\/node (--\S+ )*\/opt\/berth\/supervisor\/main\.cjs$/.test(command)
  /** Resolves when the engine says that the sandbox has ended. */
  const exitOf = async (events: AsyncIterable<BackendEvent>, sandbox: SandboxId) => {
    for await (const event of events)
      if (event.kind === "exited" && event.sandbox === sandbox) return event.exit
    throw new Error("the watch ended")
  }

  it("[R2.1] [R2.3] [R2.13] boots from a repo of the host, runs a prompt, and is shown by `berth boot`", async () => {
    const sandbox = await boot()
    expect(await sandbox.prompt("cat order README; id -un; git status --short")).toEqual({
      state: "succeeded",
      output: "setup\nstart\nhello\nagent\n?? order\n",
    })
    const [node, ...berth] = BERTH
    const shown = spawnSync(node, [...berth, "boot", sandbox.id, "--data-dir", stage.dataDir], {
      encoding: "utf8",
      env: { PATH: process.env.PATH, HOME: stage.base },
    })
    expect(shown).toMatchObject({ status: 0, stderr: "" })
    expect(shown.stdout).toMatch(/^fresh boot of .*: ready after /)
    for (const step of ["git-sync", "setup-hook", "start-hook", "agent-start", "ready"])
      expect(shown.stdout).toMatch(new RegExp(`^✓ ${step} +█`, "m"))
  })

  it("keeps its token, its plan, its socket and its journal from the agent", async () => {
    const sandbox = await boot()
    const { output } = await sandbox.prompt(`
        for path in token plan.json supervisor.sock journal ledger boot.json; do
          cat /run/berth/$path 2>&1; ls -l /run/berth/$path 2>&1
        done
        ls /run/berth 2>&1; ls /run/berth-logs 2>&1
        rm -rf /run/berth /run/berth-git/credentials.sock 2>&1
        for stat in /proc/[0-9]*/stat; do
          read -r pid name state parent rest < $stat
          [ $parent = 1 ] && [ $pid -lt \${supervisor:-99999999} ] && supervisor=$pid
        done
        cat /proc/$supervisor/environ 2>&1; ls /proc/$supervisor/fd 2>&1; kill -9 $supervisor 2>&1; kill -9 1 2>&1
        true`)
    const lines = output.split("\n").filter((line) => line !== "")
    for (const line of lines)
      expect(line).toMatch(/Permission denied|Operation not permitted|not permitted/)
    expect(lines.length).toBeGreaterThan(12)
    expect(await sandbox.prompt("echo still here")).toMatchObject({ output: "still here\n" })
  })

  it("[R2.9] ends with all its processes when its supervisor is killed, and the engine says so", async () => {
    const sandbox = await boot()
    await sandbox.prompt("sleep 1000 & setsid sleep 1000 & echo started")
    const watching = new AbortController()
    onTestFinished(() => watching.abort())
    const exited = exitOf(stage.standalone.backend.watch(watching.signal), sandbox.id)
    const supervisor = processesOf(sandbox.id).find(({ command }) => isSupervisor(command))
    expect(processesOf(sandbox.id).length).toBeGreaterThan(3)
    if (supervisor === undefined) throw new Error("there is no supervisor")
    process.kill(supervisor.pid, "SIGKILL")
    expect(await exited).toMatchObject({ code: 137 })
    expect(processesOf(sandbox.id)).toEqual([])
    expect((await sandbox.trace()).outcome).toBe("succeeded")
  })

  it("[R2.13] shows how far a boot had come when its supervisor was killed, and that it is over", async () => {
    const slow = makeRepo(join(stage.base, "slow"), {
      ".berth/setup.sh": "#!/bin/sh\necho begun; sleep 1000\n",
    })
    const sandbox = await stage.standalone.launch(workspace({ repos: [{ url: slow }] }), "fresh")
    onTestFinished(() => sandbox.remove())
    const watching = new AbortController()
    onTestFinished(() => watching.abort())
    const exited = exitOf(stage.standalone.backend.watch(watching.signal), sandbox.id)
    await sandbox.until((body) => body.type === "boot.step.output" && body.step === "setup-hook")
    expect((await sandbox.trace()).outcome).toBe("running")
    const left = join(stage.dataDir, "shared", sandbox.id, "inside", SHARED.trace)
    const stateLeft = () =>
      BootTrace.parse(JSON.parse(readFileSync(left, "utf8"))).steps.find(
        ({ name }) => name === "setup-hook",
      )?.state
    await expect.poll(stateLeft).toBe("running")
    for (const { pid, command } of processesOf(sandbox.id))
      if (isSupervisor(command)) process.kill(pid, "SIGKILL")
    await exited
    const { outcome, ending, steps } = await sandbox.trace()
    expect([outcome, ending?.reason]).toEqual(["failed", expect.stringContaining("is gone")])
    expect(steps.find(({ name }) => name === "setup-hook")?.state).toBe("running")
  })

  it("[R2.14] ends in order when it is stopped: its prompt is interrupted, its processes are gone, its status is 0", async () => {
    const sandbox = await boot()
    const running = sandbox.prompt("echo begun; setsid sleep 1000 & sleep 1000")
    await sandbox.until(({ type }) => type === "message.delta")
    const { backend } = stage.standalone
    await backend.stop(sandbox.id, { graceMs: 10_000 })
    const exit = { code: 0, reason: "exited" }
    expect(await backend.inspect(sandbox.id)).toMatchObject({ exit })
    expect(await running).toMatchObject({
      state: "interrupted",
      reason: "the sandbox was stopped",
    })
    expect(processesOf(sandbox.id)).toEqual([])
  })

  it("[R1.7] [R1.10] counts the processes that prompts left running, and none of the boot or of a command", async () => {
    const leave = "setsid -f sleep 1000\nsetsid -f env -i sleep 1000\n"
    const busy = makeRepo(join(stage.base, "busy"), { ".berth/start.sh": `#!/bin/sh\n${leave}` })
    const sandbox = await boot({ repos: [{ url: busy }] })
    const shared = await findSharedDirectories(join(stage.dataDir, "shared")).find(sandbox.id)
    if (shared === undefined) throw new Error("there is no shared directory")
    expect(await readActivity(shared, {}, signal)).toMatchObject({
      prompts: [],
      commands: [],
      terminals: [],
      leftProcesses: 0,
    })
    await sandbox.prompt(leave)
    const left = async () => (await readActivity(shared, {}, signal)).leftProcesses
    await expect.poll(left).toBe(2)
    // This command leaves a process without a mark as well, but of root.
    const command = ["sh", "-c", "setsid -f env -i sleep 1000; sleep 2000"]
    expect(await post(shared, "/commands", { command, user: "root" })).toBe(201)
    const isSleep = ({ command }: { command: string }) => command === "sleep 1000"
    await expect.poll(() => processesOf(sandbox.id).filter(isSleep).length).toBe(5)
    let activity = await readActivity(shared, {}, signal)
    expect(activity).toMatchObject({ commands: [expect.any(String)], leftProcesses: 2 })
    void sandbox.prompt(KILL_SLEEPS)
    while (activity.leftProcesses > 0)
      activity = await readActivity(shared, { after: activity.version, waitMs: 20_000 }, signal)
    expect(processesOf(sandbox.id).filter(isSleep)).toHaveLength(1)
  })

  it("[R2.9] still shows a failed boot when the sandbox has been stopped", async () => {
    const broken = makeRepo(join(stage.base, "broken"), {
      ".berth/start.sh": "#!/bin/sh\necho no luck today; exit 3\n",
    })
    const sandbox = await stage.standalone.launch(workspace({ repos: [{ url: broken }] }), "fresh")
    onTestFinished(() => sandbox.remove())
    const watching = new AbortController()
    onTestFinished(() => watching.abort())
    const exited = exitOf(stage.standalone.backend.watch(watching.signal), sandbox.id)
    expect(await sandbox.until(isOver)).toMatchObject({ type: "boot.ending" })
    // The sandbox stays up to be looked into.
    await stage.standalone.backend.stop(sandbox.id, { graceMs: 10_000 })
    expect(await exited).toMatchObject({ code: 1 })
    const { outcome, ending, steps } = await sandbox.trace()
    expect([outcome, ending?.step]).toEqual(["failed", "start-hook"])
    expect(steps.find(({ name }) => name === "start-hook")?.lastOutput).toBe("no luck today\n")
  })

  it("lets git inside ask for the credentials of its workspace's repos, and of no other repos", async () => {
    const store = join(stage.base, "credentials")
    writeFileSync(store, "https://me:s3cret-of-the-host@example.com/private.git\n", {
      mode: 0o600,
    })
    writeFileSync(
      join(stage.base, ".gitconfig"),
      `[credential]\nhelper = store --file=${store}\nuseHttpPath = true\n`,
    )
    const made = {
      name: "app",
      command: ["sh", "-c", "mkdir -p private; echo made; exec sleep 1000"],
    }
    const sandbox = await boot(
      {
        repos: [{ url: "https://example.com/private.git" }],
        sidecars: [{ ...made, ready: { line: "made" }, required: true }],
      },
      "restore",
    )
    const fill = (host: string, path: string) =>
      sandbox.prompt(
        `printf 'protocol=https\\nhost=${host}\\npath=${path}\\n\\n' | GIT_TERMINAL_PROMPT=0 git credential fill`,
      )
    expect((await fill("example.com", "private.git")).output).toContain(
      "password=s3cret-of-the-host",
    )
    for (const [host, path] of [
      ["example.com", "other.git"],
      ["elsewhere.com", "private.git"],
    ] as const)
      expect(await fill(host, path)).toMatchObject({
        state: "failed",
        output: expect.not.stringContaining("s3cret"),
      })
    expect(stage.lines.join("")).toContain("credential.grant")
    expect(stage.lines.join("")).not.toContain("s3cret-of-the-host")
  })
}

describeOn(
  sampled("backends of a sandbox with its supervisor", BACKENDS, 1),
  "a sandbox with its supervisor",
  describeSandbox,
)
