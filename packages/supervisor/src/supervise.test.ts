import { execFileSync, spawnSync } from "node:child_process"
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { BootTrace } from "@berth/protocol/boot"
import type { BootPlan } from "@berth/protocol/boot-plan"
import type { Event } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { SHARED } from "@berth/protocol/shared-directory"
import { furtherCases } from "@berth/testing/further-cases"
import { sampled } from "@berth/testing/sampled"
import { describe, expect, it } from "vitest"
import { AUTHORIZED, connect, get } from "./bridge/testing/supervisor.ts"
import { makePlaces, start } from "./testing/start.ts"

type Made = ReturnType<typeof makePlaces>
type Started = ReturnType<typeof start>
type Client = Awaited<ReturnType<Started["bridge"]>>

/** Makes a repo with hooks, to be cloned by its path. */
const makeRepo = ({ root }: Made, hooks: Readonly<Record<string, string>>) => {
  const remote = join(root, "remote/app")
  mkdirSync(join(remote, ".berth"), { recursive: true })
  writeFileSync(join(remote, "README"), "hello\n")
  for (const [name, script] of Object.entries(hooks)) {
    writeFileSync(join(remote, ".berth", name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(remote, ".berth", name), 0o755)
  }
  const who = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
  for (const args of [
    ["init", "-qb", "main"],
    ["add", "."],
    [...who, "commit", "-qm", "first"],
  ])
    execFileSync("git", ["-C", remote, ...args])
  return [{ directory: "app", source: { kind: "remote" as const, url: `file://${remote}` } }]
}

/** Makes a gate at which a hook waits until the test opens it. */
const gate = ({ root }: Made) => {
  const path = join(root, "gate")
  execFileSync("mkfifo", [path])
  return { wait: `read line < ${path}`, open: () => writeFileSync(path, "go\n") }
}

const bodies = (client: Client) =>
  client.received
    .flatMap(({ events }) => (Array.isArray(events) ? (events as Event[]) : []))
    .map(({ body }) => body)
const types = (client: Client) => bodies(client).map(({ type }) => type)
const stepStarted = (client: Client, step: string) =>
  client.until(() =>
    bodies(client).some((body) => body.type === "boot.step.started" && body.step === step),
  )
const heard = (client: Client, type: string) =>
  client.until(() => types(client).includes(type as never))
const leftTrace = ({ shared }: Made) =>
  BootTrace.parse(JSON.parse(readFileSync(join(shared, SHARED.trace), "utf8")))
/** Ends a supervisor that stays up because its boot failed. */
const stopFailed = async (started: Started, client?: Client) => {
  await started.answers()
  await heard(client ?? (await started.bridge()), "boot.ended")
  started.child.kill("SIGTERM")
  expect(await started.ended).toEqual({ status: 1, signal: null })
  expect(started.family.running()).toEqual([])
}
const prompt = (text: string) => ({
  type: "prompt.start",
  prompt: newId.prompt(),
  session: newId.session(),
  text,
})

const KILLED_AT = [
  ...["bridge", "agent-files", "git-sync"],
  ...["setup-hook", "start-hook", "agent-attach"],
]
const STOPPED_AT = [...KILLED_AT, "agent-start", "sidecar-slow", "ready"]

describe("a supervisor", () => {
  it("goes on when its log is no longer read", async () => {
    const supervisor = start()
    await supervisor.answers()
    supervisor.child.stderr?.destroy()
    const wrong = connect(supervisor.socket, AUTHORIZED)
    await wrong.opened
    // The supervisor cannot write its report of this message.
    wrong.say({ type: "nonsense" })
    await wrong.closed
    const client = await supervisor.bridge()
    await heard(client, "boot.ready")
    const { prompt: id, ...started } = prompt("echo still here")
    client.say({ ...started, prompt: id })
    await client.until(() =>
      bodies(client).some((body) => body.type === "prompt.state" && body.state === "succeeded"),
    )
  })

  it("[R2.1] [R2.2] [R2.3] boots fresh: clone, setup, start, agent, ready, and takes a prompt", async () => {
    const made = makePlaces()
    const repos = makeRepo(made, {
      "setup.sh": "cat README; echo setup >> order",
      "start.sh": "echo start >> order",
    })
    const started = start({ repos }, made)
    await started.answers()
    const client = await started.bridge()
    await heard(client, "boot.ready")
    const asked = prompt("cat order README; echo done >> order")
    client.say(asked)
    await client.until(() =>
      bodies(client).some((body) => body.type === "prompt.state" && body.state === "succeeded"),
    )
    const said = bodies(client)
      .map((body) => (body.type === "message.delta" ? body.text : ""))
      .join("")
    expect(said).toBe("setup\nstart\nhello\n")
    const trace = await started.trace()
    expect(trace.outcome).toBe("succeeded")
    const at = (name: string) => trace.steps.find((step) => step.name === name)
    expect(at("git-sync")?.endedAtMs).toBeLessThanOrEqual(at("setup-hook")?.startedAtMs ?? 0)
    expect(at("setup-hook")?.endedAtMs).toBeLessThanOrEqual(at("start-hook")?.startedAtMs ?? 0)
    expect(at("start-hook")?.endedAtMs).toBeLessThanOrEqual(at("agent-attach")?.startedAtMs ?? 0)
    // The agent's own start overlaps git and the hooks.
    expect(at("agent-start")?.startedAtMs).toBeLessThan(at("git-sync")?.endedAtMs ?? 0)
    started.child.kill("SIGTERM")
    expect(await started.ended).toEqual({ status: 0, signal: null })
    expect(made.family.running()).toEqual([])
    expect(leftTrace(made)).toEqual(trace)
  })

  it("[R2.12] can be watched while it boots, accepts prompts, and runs them when it is ready", async () => {
    const made = makePlaces()
    const { wait, open } = gate(made)
    const started = start({ repos: makeRepo(made, { "start.sh": `echo begun; ${wait}` }) }, made)
    expect(await started.answers()).toMatchObject({ ready: false, prompts: 0 })
    const client = await started.bridge()
    await client.until(() =>
      bodies(client).some(
        (body) =>
          body.type === "boot.step.output" &&
          body.step === "start-hook" &&
          body.text.includes("begun"),
      ),
    )
    const asked = prompt("echo hello")
    client.say(asked)
    await client.until(() => client.received.some(({ type }) => type === "prompt.standing"))
    expect(client.received.find(({ type }) => type === "prompt.standing")).toMatchObject({
      standing: { state: "accepted" },
    })
    expect((await started.trace()).steps.find(({ name }) => name === "start-hook")?.state).toBe(
      "running",
    )
    expect(types(client)).not.toContain("prompt.state")
    open()
    await client.until(() =>
      bodies(client).some((body) => body.type === "prompt.state" && body.state === "succeeded"),
    )
    expect(types(client).indexOf("boot.ready")).toBeLessThan(types(client).indexOf("prompt.state"))
    expect(JSON.parse((await get(started.socket, "/health")).body)).toMatchObject({ ready: true })
    started.child.kill("SIGTERM")
    await started.ended
  })

  const builds = async ({ isHeard }: { readonly isHeard: boolean }) => {
    const made = makePlaces()
    const repos = makeRepo(made, {
      "setup.sh": "echo built > result; sleep 1000 &",
      "start.sh": "touch started",
    })
    const started = start({ repos, mode: "build" }, made)
    await started.answers()
    if (isHeard) await started.bridge()
    expect(await started.ended).toEqual({ status: 0, signal: null })
    expect(made.family.running()).toEqual([])
    const app = join(made.places.workspace, "app")
    expect(readFileSync(join(app, "result"), "utf8")).toBe("built\n")
    expect(existsSync(join(app, "started"))).toBe(false)
    expect(leftTrace(made)).toMatchObject({ mode: "build", outcome: "succeeded" })
  }
  it("[R2.2] builds: clone and setup hook, then ends with nothing running, so that its files can be frozen", () =>
    builds({ isHeard: true }))
  // The supervisor waits three seconds for a client to take its last events.
  furtherCases("builds without a client", { inPart: true })(
    "[R2.2] ends a build though no client takes its last events",
    () => builds({ isHeard: false }),
  )

  it("[R2.2] restores: the working tree stays as it was, and the start hook runs", async () => {
    const made = makePlaces()
    const repos = makeRepo(made, { "setup.sh": "touch setup-ran", "start.sh": "touch start-ran" })
    const [repo] = repos
    const app = join(made.places.workspace, "app")
    execFileSync("git", ["clone", "-q", repo?.source.url ?? "", app])
    writeFileSync(join(app, "README"), "my own words\n")
    const started = start({ repos, mode: "restore" }, made)
    await started.answers()
    const client = await started.bridge()
    await heard(client, "boot.ready")
    expect(readFileSync(join(app, "README"), "utf8")).toBe("my own words\n")
    expect([existsSync(join(app, "setup-ran")), existsSync(join(app, "start-ran"))]).toEqual([
      false,
      true,
    ])
    const states = (await started.trace()).steps.map(({ name, state }) => `${name} ${state}`)
    expect(states).toEqual(expect.arrayContaining(["git-sync skipped", "setup-hook skipped"]))
    started.child.kill("SIGTERM")
    await started.ended
  })

  it("[R2.2] restores with a first repo that is new: clones it and runs its setup hook until it has succeeded", async () => {
    const made = makePlaces()
    const script = "test -e ../allowed || exit 7; echo ran >> ../setups"
    const repos = makeRepo(made, { "setup.sh": script, "start.sh": "touch start-ran" })
    const { workspace } = made.places
    await stopFailed(start({ repos, mode: "restore" }, made))
    writeFileSync(join(workspace, "allowed"), "")
    for (const setups of ["ran\n", "ran\n"]) {
      const started = start({ repos, mode: "restore" }, made)
      await started.answers()
      await heard(await started.bridge(), "boot.ready")
      expect(readFileSync(join(workspace, "setups"), "utf8")).toBe(setups)
      expect(existsSync(join(workspace, "app/start-ran"))).toBe(true)
      started.child.kill("SIGTERM")
      await started.ended
    }
  })

  it("[R2.2] prebuilt: brings the repo up to date and runs the start hook only", async () => {
    const made = makePlaces()
    const repos = makeRepo(made, { "setup.sh": "touch setup-ran", "start.sh": "touch start-ran" })
    const [repo] = repos
    const app = join(made.places.workspace, "app")
    const remote = join(made.root, "remote/app")
    execFileSync("git", ["clone", "-q", repo?.source.url ?? "", app])
    writeFileSync(join(remote, "README"), "newer\n")
    execFileSync("git", [
      "-C",
      remote,
      "-c",
      "user.name=t",
      "-c",
      "user.email=t@example.com",
      "commit",
      "-qam",
      "second",
    ])
    const started = start({ repos, mode: "prebuilt" }, made)
    await started.answers()
    const client = await started.bridge()
    await heard(client, "boot.ready")
    expect(readFileSync(join(app, "README"), "utf8")).toBe("newer\n")
    expect([existsSync(join(app, "setup-ran")), existsSync(join(app, "start-ran"))]).toEqual([
      false,
      true,
    ])
    started.child.kill("SIGTERM")
    await started.ended
  })

  it.each(["fresh", "build"] as const)(
    "[R2.9] ends a %s boot whose hook fails, with the reason, its last output, and how far the other steps were",
    async (mode) => {
      const made = makePlaces()
      const repos = makeRepo(made, { "setup.sh": "sleep 1000 & echo the reason; exit 7" })
      const sidecars = [{ name: "idle", command: ["sleep", "1000"] }]
      const started = start({ repos, mode, sidecars }, made)
      await started.answers()
      const client = await started.bridge()
      await heard(client, "boot.ended")
      if (mode === "fresh") {
        // The supervisor stays up to be looked at, alone with tini.
        const { pid = 0 } = started.child
        await expect.poll(() => made.family.running()).toEqual([pid, childOf(pid)])
        started.child.kill("SIGTERM")
      }
      expect(await started.ended).toEqual({ status: 1, signal: null })
      expect(made.family.running()).toEqual([])
      const { outcome, ending, steps } = leftTrace(made)
      expect(outcome).toBe("failed")
      expect(ending?.reason).toMatch(/; its last line: the reason$/)
      expect(ending).toMatchObject({ step: "setup-hook", reason: expect.stringContaining("7") })
      expect(steps.find(({ name }) => name === "setup-hook")?.lastOutput).toContain("the reason")
      const others = new Map(ending?.others.map(({ name, state }) => [name, state]))
      expect(others.get("git-sync")).toBe("succeeded")
      if (mode === "fresh") expect(others.get("agent-start")).toBe("succeeded")
      expect(types(client)).toContain("boot.ending")
    },
  )

  it.each(sampled("boot steps at which a supervisor is asked to stop", STOPPED_AT, 3))(
    "[R2.9] [R2.14] ends in a known state with nothing running when it is asked to stop at %s",
    async (step) => {
      const made = makePlaces()
      const repos = makeRepo(made, {
        "setup.sh": "sleep 0.1",
        "start.sh": "sleep 1000 & sleep 0.1",
      })
      const sidecars = [
        { name: "slow", command: ["sh", "-c", "sleep 1000; true"], ready: { line: "never" } },
      ]
      const started = start({ repos, sidecars }, made)
      await started.answers()
      const client = await started.bridge()
      await stepStarted(client, step)
      started.child.kill("SIGTERM")
      const { status } = await started.ended
      expect(made.family.running()).toEqual([])
      const trace = leftTrace(made)
      // The last steps may be over before the signal arrives; the slow sidecar is optional.
      if (trace.readyAtMs !== null) expect(status).toBe(0)
      if (trace.ending !== null) {
        expect(trace.outcome).toBe("cancelled")
        if (trace.readyAtMs === null) expect(status).toBe(143)
        expect(trace.ending.reason).toContain("asked to stop (SIGTERM)")
        expect(trace.ending.others).toHaveLength(trace.steps.length)
      }
      for (const { state, abandoned } of trace.steps) {
        expect(state).not.toBe("running")
        expect(abandoned).toBe(false)
      }
    },
  )

  it("[R2.14] interrupts the running prompt when it is stopped, reports that, and may be stopped again", async () => {
    const started = start()
    await started.answers()
    const client = await started.bridge()
    await heard(client, "boot.ready")
    client.say(prompt("trap '' TERM; echo begun; sleep 1000 & sleep 1000; sleep 1000"))
    await heard(client, "message.delta")
    started.child.kill("SIGTERM")
    await client.until(() =>
      bodies(client).some((body) => body.type === "prompt.state" && body.state === "interrupted"),
    )
    started.child.kill("SIGTERM")
    started.child.kill("SIGTERM")
    expect(await started.ended).toEqual({ status: 0, signal: null })
    expect(started.family.running()).toEqual([])
  })

  it("[R2.14] reports a prompt's interruption even while an optional sidecar is not up", async () => {
    const command = ["sh", "-c", "sleep 1000; true"]
    const started = start({ sidecars: [{ name: "slow", command, ready: { line: "never" } }] })
    await started.answers()
    const client = await started.bridge()
    await heard(client, "boot.ready")
    client.say(prompt("echo begun; sleep 1000"))
    await heard(client, "message.delta")
    started.child.kill("SIGTERM")
    expect(await started.ended).toEqual({ status: 0, signal: null })
    expect(bodies(client).findLast(({ type }) => type === "prompt.state")).toMatchObject({
      state: "interrupted",
    })
    expect(started.family.running()).toEqual([])
  })

  it("goes on after SIGKILL where its files left off: the running prompt is interrupted, and events go on", async () => {
    const made = makePlaces()
    const first = start({}, made)
    await first.answers()
    const client = await first.bridge()
    await heard(client, "boot.ready")
    const asked = prompt("echo begun; sleep 1000")
    client.say(asked)
    await heard(client, "message.delta")
    const seen = Math.max(...client.numbers())
    process.kill(childOf(first.child.pid ?? 0), "SIGKILL")
    expect(await first.ended).toMatchObject({ status: 137 })
    const second = start({ sandbox: first.plan.sandbox }, made)
    await second.answers()
    const again = await second.bridge(seen)
    await again.until(() =>
      bodies(again).some((body) => body.type === "prompt.state" && body.state === "interrupted"),
    )
    expect(again.numbers()[0]).toBe(seen + 1)
    second.child.kill("SIGTERM")
    await second.ended
  })

  it.each(sampled("boot steps at which a supervisor is killed", KILLED_AT, 2))(
    "[R2.7] boots completely after it was killed at %s",
    async (step) => {
      const made = makePlaces()
      const repos = makeRepo(made, { "setup.sh": "sleep 0.05; echo setup >> order" })
      const first = start({ repos }, made)
      await first.answers()
      const client = await first.bridge()
      await stepStarted(client, step)
      process.kill(childOf(first.child.pid ?? 0), "SIGKILL")
      await first.ended
      // In a sandbox, nothing outlives its supervisor.
      made.family.killAll()
      const again = start({ repos, sandbox: first.plan.sandbox }, made)
      await again.answers()
      // The trace is asked for, as the bridge repeats the last events of the first supervisor.
      await expect.poll(async () => (await again.trace()).readyAtMs).not.toBeNull()
      const { steps, warnings } = await again.trace()
      expect(steps.find(({ name }) => name === "git-sync")?.state).toBe("succeeded")
      expect(warnings).toEqual([])
      const app = join(made.places.workspace, "app")
      expect(readFileSync(join(app, "README"), "utf8")).toBe("hello\n")
      expect(execFileSync("git", ["-C", app, "status", "--porcelain"], { encoding: "utf8" })).toBe(
        "?? order\n",
      )
      // A client that takes its last events spares the supervisor the wait for one.
      await again.bridge()
      again.child.kill("SIGTERM")
      await again.ended
    },
  )

  it("[R2.9] keeps in its trace the last output of an agent that does not start", async () => {
    const made = makePlaces()
    fakeOpenCode(made, "echo it is broken >&2; exit 3")
    await stopFailed(start({ agent: { kind: "opencode" } }, made, { isHurried: true }))
    expect(leftTrace(made).steps.find(({ name }) => name === "agent-start")).toMatchObject({
      state: "failed",
      lastOutput: expect.stringContaining("it is broken"),
    })
  })

  it.each([
    ["agent-start", "sleep 1000 & echo starting; sleep 1000"],
    [
      "agent-attach",
      `exec ${process.execPath} -e '
      const server = require("net").createServer(() => {}).listen(0, "127.0.0.1", () =>
        console.log("opencode server listening on http://127.0.0.1:" + server.address().port))'`,
    ],
  ])(
    "[R2.9] [R2.14] ends with nothing running when it is asked to stop while the agent hangs (%s)",
    async (_, script) => {
      const made = makePlaces()
      fakeOpenCode(made, script)
      const started = start({ agent: { kind: "opencode" } }, made)
      await started.answers()
      const client = await started.bridge()
      await stepStarted(client, "agent-start")
      await expect.poll(() => made.family.running().length).toBeGreaterThan(2)
      started.child.kill("SIGTERM")
      expect(await started.ended).toMatchObject({ status: 143 })
      expect(made.family.running()).toEqual([])
      const { outcome, steps } = leftTrace(made)
      expect(outcome).toBe("cancelled")
      expect(steps.find(({ name }) => name === "agent-start")?.state).toBe("cancelled")
      expect(steps.find(({ name }) => name === "agent-files")?.state).toBe("succeeded")
    },
  )

  it("[R2.11] fails the boot for a required sidecar that does not stay up, and shows its output", async () => {
    const made = makePlaces()
    const command = ["sh", "-c", "echo no such word; exit 1"]
    const sidecars = [{ name: "web", command, required: true }]
    await stopFailed(start({ sidecars }, made, { isHurried: true }))
    const { ending, steps } = leftTrace(made)
    expect(ending?.step).toBe("sidecar-web")
    expect(steps.find(({ name }) => name === "sidecar-web")?.lastOutput).toContain("no such word")
  })

  it("puts a workspace's own path before the system's and the toolbox's", async () => {
    const made = makePlaces()
    const started = start({ environment: { PATH: "/nowhere" }, repos: makeRepo(made, {}) }, made)
    await started.answers()
    const client = await started.bridge()
    await heard(client, "boot.ready")
    client.say(prompt("echo $PATH"))
    await heard(client, "message.delta")
    const said = bodies(client).find((body) => body.type === "message.delta")
    expect(said).toMatchObject({
      text: expect.stringMatching(
        new RegExp(`^/nowhere:.*:/usr/bin:.*:${made.places.toolbox}/bin\n$`),
      ),
    })
    started.child.kill("SIGTERM")
    await started.ended
  })

  it("runs prompts in the workspace where the repo is missing, with warnings", async () => {
    const started = start({
      mode: "restore",
      repos: [{ directory: "gone", source: { kind: "remote", url: "file:///nowhere" } }],
    })
    await started.answers()
    const client = await started.bridge()
    await heard(client, "boot.ready")
    expect((await started.trace()).warnings).toEqual([
      { step: "git-sync", message: expect.stringContaining("gone: not there, and could not be") },
      { step: "agent-attach", message: expect.stringContaining("gone is not there") },
    ])
    client.say(prompt("pwd"))
    await heard(client, "message.delta")
    expect(bodies(client).find((body) => body.type === "message.delta")).toMatchObject({
      text: `${started.places.workspace}\n`,
    })
    started.child.kill("SIGTERM")
    await started.ended
  })

  it("[R2.13] leaves a trace of how far it had come when it is killed", async () => {
    const made = makePlaces()
    const repos = makeRepo(made, { "setup.sh": "sleep 1000" })
    const started = start({ repos, mode: "build" }, made)
    await started.answers()
    const state = () => leftTrace(made).steps.find(({ name }) => name === "setup-hook")?.state
    await expect.poll(() => existsSync(join(made.shared, SHARED.trace)) && state()).toBe("running")
    process.kill(childOf(started.child.pid ?? 0), "SIGKILL")
    await started.ended
    expect([state(), leftTrace(made).outcome]).toEqual(["running", "running"])
  })

  it("reports an unusable plan, and ends", async () => {
    const made = makePlaces()
    const spoil = (plan: BootPlan) => ({ ...plan, mode: "sideways" })
    const started = start({}, made, { spoil })
    expect(await started.ended).toMatchObject({ status: 1 })
    expect(JSON.parse(started.errors())).toMatchObject({ code: "boot.plan_unusable" })
  })

  it("[R2.9] names in its trace the missing program of an agent", async () => {
    const made = makePlaces()
    await stopFailed(start({ agent: { kind: "acp", command: ["x"] } }, made))
    expect(leftTrace(made).steps.find(({ name }) => name === "agent-start")).toMatchObject({
      state: "failed",
      error: { code: "agent.not_installed", message: "the sandbox has no program x" },
    })
  })

  it("[R2.9] does not become ready without a journal", async () => {
    const made = makePlaces()
    writeFileSync(join(made.shared, SHARED.journal), "in the way")
    const started = start({}, made)
    expect(await started.ended).toMatchObject({ status: 1 })
    expect(leftTrace(made)).toMatchObject({ outcome: "failed", ending: { step: "bridge" } })
  })
})

const KEY = "sk-0123456789-secret"

/** Answers every question for keys. */
const answerKeys = (client: Client, answer: object) =>
  client.websocket.on("message", (data) => {
    const { type, id } = JSON.parse(String(data))
    if (type === "ask") client.say({ type: "answer", id, answer })
  })

const ended = (client: Client) =>
  client.until(() =>
    bodies(client).some((body) => body.type === "prompt.state" && body.state !== "running"),
  )

describe("the agent of a supervisor", () => {
  it("has its keys from the server, and they stand in no file", async () => {
    const made = makePlaces()
    const repos = makeRepo(made, { "start.sh": 'echo "hook has [$SOME_KEY]"' })
    const started = start({ repos, agent: { kind: "shell", keys: ["SOME_KEY"] } }, made)
    await started.answers()
    const client = await started.bridge()
    answerKeys(client, { kind: "keys", keys: { SOME_KEY: KEY } })
    await heard(client, "boot.ready")
    const halves = 'echo "$SOME_KEY" | cut -c1-10 | tr -d "\\n"; echo "$SOME_KEY" | cut -c11-'
    client.say(prompt(`printf 'it is '; ${halves}`))
    await ended(client)
    const said = bodies(client).flatMap((body) => (body.type === "message.delta" ? body.text : []))
    expect(said.join("")).toBe("it is [hidden]\n")
    expect(JSON.stringify(client.received)).toContain("hook has []")
    expect(JSON.stringify(client.received)).not.toContain(KEY)
    started.child.kill("SIGTERM")
    await started.ended
    expect(spawnSync("grep", ["-rlF", KEY, made.root], { encoding: "utf8" }).stdout).toBe("")
  })

  it("does not start where the server lacks the key, which the trace names", async () => {
    const started = start({ agent: { kind: "shell", keys: ["SOME_KEY"] } })
    await started.answers()
    const client = await started.bridge()
    answerKeys(client, {
      kind: "refused",
      code: "agent.key_missing",
      reason: "there is no SOME_KEY",
    })
    await stopFailed(started, client)
    expect(leftTrace(started).steps.find(({ name }) => name === "agent-start")).toMatchObject({
      state: "failed",
      error: { code: "agent.key_missing", message: "there is no SOME_KEY" },
    })
  })

  it("[R3.6] over ACP asks a person, who answers over the bridge, and fails a prompt at its deadline", async () => {
    const scripted = join(import.meta.dirname, "agents/acp/testing/scripted-agent.ts")
    const command = [process.execPath, scripted]
    const started = start({ agent: { kind: "acp", command, permissions: "ask" } })
    await started.answers()
    const client = await started.bridge()
    await heard(client, "boot.ready")
    const asked = prompt("permission: rm")
    client.say(asked)
    await heard(client, "permission.asked")
    const answer = { kind: "permission", ask: "permission-1", allow: true }
    for (const _ of [1, 2]) client.say({ type: "prompt.answer", prompt: asked.prompt, answer })
    await ended(client)
    const { prompt: id } = asked
    expect(client.received).toContainEqual(
      expect.objectContaining({
        type: "prompt.refused",
        prompt: id,
        code: "session.nothing_asked",
      }),
    )
    expect(bodies(client)).toContainEqual(
      expect.objectContaining({ type: "message.delta", prompt: id, text: "yes" }),
    )
    client.say({ ...prompt("wait"), deadlineMs: 1000 })
    await heard(client, "error")
    await client.until(() =>
      bodies(client).some((body) => body.type === "prompt.state" && body.state === "failed"),
    )
    expect(bodies(client).find(({ type }) => type === "error")).toMatchObject({
      code: "prompt.overdue",
    })
    started.child.kill("SIGTERM")
    expect(await started.ended).toEqual({ status: 0, signal: null })
    expect(started.family.running()).toEqual([])
  })
})

/** Puts a script into the toolbox in the place of OpenCode. */
const fakeOpenCode = ({ places }: Made, script: string) => {
  const config = join(places.toolbox, "agents/opencode/config")
  mkdirSync(join(config, "node_modules/x"), { recursive: true })
  for (const name of ["package.json", "package-lock.json", "node_modules/x/index.js"])
    writeFileSync(join(config, name), "{}")
  const packages = join(places.toolbox, "agents/opencode/packages")
  mkdirSync(packages)
  for (const name of ["npmrc", "package.json"]) writeFileSync(join(packages, name), "{}")
  mkdirSync(join(places.toolbox, "bin"))
  writeFileSync(join(places.toolbox, "bin/opencode"), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
}

/** The pid of tini's only child. */
const childOf = (pid: number): number =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ")[0])
