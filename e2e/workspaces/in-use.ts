import { userOf, usesAmong } from "@berth/protocol/lease"
import type { Sandbox } from "@berth/sdk/sandboxes"
import type { Session } from "@berth/sdk/sessions"
import { type ExpectStatic, expect, it } from "vitest"
import type { setStage } from "../leases/stage.ts"
import { ran } from "./ran.ts"

type Stage = Awaited<ReturnType<typeof setStage>>

/** Begins a use of a sandbox, and returns the function that ends it. */
type Begin = (box: Sandbox, use: Using) => Promise<() => unknown>

interface Using {
  readonly session: () => Promise<Session>
  /** The test's own `expect`, since these tests run at the same time. */
  readonly expect: ExpectStatic
}

const FOREVER = "until [ -e go ]; do sleep 0.05; done"
const letGo = (box: Sandbox) => () => box.files.write("go", "")

/** Its name, the words that its users are told by, and its begin. */
type Use = readonly [string, RegExp, Begin]

/** Every kind of lease that makes a sandbox in use, with the words for its user. */
export const USES: readonly Use[] = [
  [
    "command",
    /^a running command$/,
    async (box) => {
      const running = await box.commands.spawn(["cat"], { stdin: true })
      return () => running.endInput()
    },
  ],
  [
    "background",
    /^command cmd-/,
    async (box) => {
      await box.commands.start(FOREVER)
      return letGo(box)
    },
  ],
  [
    "terminal",
    /terminal/,
    async (box) => {
      const view = await box.pty.create({ command: ["sh"], cols: 80, rows: 24 })
      return () => view.write("exit\n")
    },
  ],
  [
    "preview",
    /^a connection to a port$/,
    async (box, { expect }) => {
      const listens = `require("node:net").createServer().listen(8123, "127.0.0.1")`
      await box.commands.start(["/opt/berth/bin/node", "-e", listens])
      await expect.poll(async () => (await box.ports.list()).length).toBe(1)
      const connection = await box.ports.connect(8123)
      // From here on the connection alone keeps the sandbox in use.
      for (const { id } of await box.commands.list()) await box.commands.kill(id)
      return () => connection.close()
    },
  ],
  [
    "prompt",
    /^prompt pr-/,
    async (box, { session }) => {
      await (await session()).prompt(FOREVER)
      return letGo(box)
    },
  ],
  [
    "watched",
    /^whoever watches ses-/,
    async (_, { session }) => {
      const watching = new AbortController()
      const events = (await session()).events({ signal: watching.signal })[Symbol.asyncIterator]()
      await events.next()
      return () => watching.abort()
    },
  ],
  [
    "left",
    /^processes left running$/,
    async (box, { session, expect }) => {
      await ran(await session(), `(${FOREVER}) >/dev/null 2>&1 &`, expect)
      return letGo(box)
    },
  ],
  [
    "held",
    /^a hold of ada$/,
    async (box) => {
      const { id } = await box.hold({ holder: "ada" })
      return () => box.release(id)
    },
  ],
]

/** A session of a workspace whose first prompt has run. */
const sessionOf = async (stage: Stage, name: string, own: ExpectStatic): Promise<Session> => {
  const session = await stage.client().sessions.create({ workspace: name })
  await ran(session, "true", own)
  return session
}

export const inUse = (stage: () => Stage, uses: readonly Use[]): void => {
  const usersOf = async (box: Sandbox) => usesAmong((await box.why()).leases).map(userOf)

  it.concurrent.for(uses)(
    "[R1.6] [R1.7] a sandbox in use is neither stopped nor removed, and drains when its workspace changes (%s)",
    async ([name, user, begin], { expect }) => {
      const { make, told, create } = stage()
      const box = await make(name)
      const end = await begin(box, { session: () => sessionOf(stage(), name, expect), expect })
      const word = new RegExp(user.source.replace(/^\^|\$$/g, ""))
      await expect.poll(() => usersOf(box)).toContainEqual(expect.stringMatching(word))
      expect(await box.get()).toMatchObject({ inUse: true })
      expect(await box.why()).toMatchObject({ inUse: true })
      expect((await told("ps")).stdout).toMatch(
        new RegExp(`^${box.id} +${name} +ready .* used by .*${word.source}`, "m"),
      )
      expect((await told("why", name)).stdout).toMatch(/and it is used by\n/)
      const refused = {
        status: 1,
        stdout: "",
        stderr: expect.stringMatching(`${box.id} is used by`),
      }
      const left = new AbortController()
      const wanted = Promise.withResolvers<string>()
      const { signal } = left
      create(name, { A: "2" }, { signal, onWait: wanted.resolve }).catch(wanted.reject)
      const [stopped, removed, bySdk, waits] = await Promise.all([
        told("stop", name),
        told("rm", name),
        box.stop().catch((thrown) => thrown),
        wanted.promise,
      ])
      left.abort()
      expect([stopped, removed]).toMatchObject([refused, refused])
      expect(bySdk).toMatchObject({ code: "sandbox.in_use" })
      expect(waits).toMatch(`${name} waits for ${box.id}, which is used by`)
      const session = await stage().client().sessions.create({ workspace: name })
      const waiting = await session.prompt("echo $A")
      for await (const { body } of session.events())
        if (body.type === "prompt.waiting" && body.message.includes(`waits for ${box.id}`)) break
      // The prompt runs in the changed workspace's sandbox once the use ends, whatever sessions keep the old one.
      await end()
      const find = async () => (await session.prompts()).find(({ id }) => id === waiting.id)
      await expect.poll(async () => (await find())?.state, { timeout: 20_000 }).toBe("succeeded")
      expect((await find())?.sandbox).not.toBe(box.id)
    },
  )
}

/** A session keeps its sandbox between its prompts without using it. */
export const betweenPrompts = (stage: () => Stage): void => {
  it("[R1.7] keeps its sandbox, and yields to every request", async () => {
    const { make, told, create, client } = stage()
    const keep = async (name: string) => {
      const box = await make(name)
      const session = await sessionOf(stage(), name, expect)
      await expect
        .poll(async () => (await box.why()).leases)
        .toMatchObject([{ kind: "session", source: "session", subject: session.id, yields: true }])
      return { box, session }
    }
    const { box, session } = await keep("kept-a")
    expect(await box.get()).toMatchObject({ inUse: false })
    expect((await told("ps")).stdout).toMatch(
      new RegExp(`^${box.id} +kept-a +ready .* kept for session ${session.id}$`, "m"),
    )
    expect((await told("why", "kept-a")).stdout).toContain(
      "is ready, and nobody uses it. It is kept for\n",
    )
    expect(await told("stop", "kept-a")).toMatchObject({ status: 0, stderr: "" })
    // The conversation goes on in the next sandbox, and keeps that one.
    const second = await ran(session, "true", expect)
    expect(second).not.toBe(box.id)
    const third = await create("kept-a", { A: "2" }, { deadlineMs: 20_000 })
    expect(third.id).not.toBe(second)
    expect(await ran(session, "true", expect)).toBe(third.id)
    const run = ["run", "--workspace", "kept-a", "--no-diff", "--env"]
    const { status, stderr } = await told(...(run as [string]), "A=3", "true")
    expect({ status }, stderr).toEqual({ status: 0 })
    const other = await client().sessions.create({
      workspace: { ...(await client().workspaces.get("kept-a")), environment: { A: "4" } },
    })
    const startedMs = performance.now()
    const fifth = await ran(other, "true", expect)
    expect(fifth).not.toBe(third.id)
    expect(performance.now() - startedMs).toBeLessThan(10_000)
    expect(await told("rm", "kept-a")).toMatchObject({ status: 0, stderr: "" })
  })
}
