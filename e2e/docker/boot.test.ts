import { once } from "node:events"
import { readdirSync } from "node:fs"
import { connect, createServer } from "node:net"
import { join } from "node:path"
import { pipeline } from "node:stream"
import type { Event } from "@berth/protocol/event"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { requires } from "@berth/testing/requires"
import { sampledCases } from "@berth/testing/sampled-cases"
import { withoutWaits } from "@berth/testing/without-waits"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { makeRepo, setStage } from "../boot/stage.ts"
import { openServer } from "../sandboxes/server.ts"
import { statesOf, textOf } from "../sessions/read-events.ts"
import { processesOf, startEngine } from "./engine.ts"

/** Covers the start of an engine, the making of a toolbox, and boots beside other tests. */
const STAGE_DEADLINE_MS = 180_000
const DEADLINE_MS = 60_000

/** Reads a terminal's output until these words are there, and returns the rest of it. */
const shownUntil = async (
  output: AsyncIterable<Uint8Array>,
  words: string,
): Promise<AsyncIterable<Uint8Array>> => {
  const pieces = output[Symbol.asyncIterator]()
  let shown = ""
  while (!shown.includes(words)) {
    const piece = await pieces.next()
    if (piece.done) throw new Error(`it showed no ${words}, but ${shown}`)
    shown += Buffer.from(piece.value).toString()
  }
  return { [Symbol.asyncIterator]: () => pieces }
}

requires("root", "docker", "tini").describe("sandboxes of a Docker engine through a server", () => {
  let engine: Awaited<ReturnType<typeof startEngine>>
  let server: Awaited<ReturnType<typeof openServer>>
  let box: ReturnType<typeof server.sandbox>
  let repo: string
  beforeAll(async () => {
    engine = await startEngine({ liveRestore: true })
    server = await openServer(engine.flags)
    repo = makeRepo(join(server.base, "app"), {
      README: "hello\n",
      ".berth/setup.sh": "#!/bin/sh\necho set up > made-by-setup\n",
      ".berth/start.sh": "#!/bin/sh\ncp made-by-setup made-by-start; id -u >> made-by-start\n",
    })
    const made = await server.berth(["up", repo, "--network", "none"])
    expect(withoutWaits(made.stderr)).toMatch(/^app is ready after \d+ ms\n$/)
    box = server.sandbox(made.stdout.toString().trim())
  }, STAGE_DEADLINE_MS)
  afterAll(async () => {
    try {
      await server?.close()
    } finally {
      await engine?.stop()
    }
  }, STAGE_DEADLINE_MS)

  it("[R2.3] has the repo, the files that its hooks made, and the image as it is in the engine", async () => {
    expect(await box.get()).toMatchObject({ phase: "ready", boot: { outcome: "succeeded" } })
    expect(await box.files.readText("app/README")).toBe("hello\n")
    expect(await box.files.readText("app/made-by-start")).toBe("set up\n1000\n")
    const [seen] = await engine.containers()
    expect(seen).toMatchObject({ ImageID: engine.image, Labels: { "berth.sandbox": box.id } })
  })

  sampledCases("further cases of a Docker engine through a server", 1, (further) => {
    further(
      "runs commands, files, terminals, ports and git",
      async () => {
        const command = await box.commands.run("cat; echo wrong >&2; exit 3", { stdin: "in\n" })
        expect(command).toMatchObject({ stdout: "in\n", stderr: "wrong\n", status: 3 })
        const bytes = new Uint8Array(1_000_000).map((_, place) => place % 251)
        await box.files.write("bytes", bytes)
        expect(Buffer.from(await box.files.read("bytes")).equals(Buffer.from(bytes))).toBe(true)
        await box.files.remove("bytes")

        const view = await box.pty.create({ command: ["sh"], cols: 91, rows: 33 })
        await view.write("stty size; exit 5\n")
        let shown = ""
        for await (const piece of view.output) shown += Buffer.from(piece).toString()
        expect(shown).toContain("33 91")
        expect(await view.exit).toEqual({ status: 5, signal: null })

        const script = `require("net").createServer((s) => s.on("data", (d) => s.end("got " + d)))
      .listen(3456, "127.0.0.1")`
        const { id } = await box.commands.start(["/opt/berth/bin/node", "-e", script])
        await expect
          .poll(async () => (await box.ports.list()).map(({ port }) => port), {
            timeout: DEADLINE_MS,
          })
          .toContain(3456)
        const connection = await box.ports.connect(3456)
        await connection.write(Buffer.from("hello"))
        let heard = ""
        for await (const piece of connection.output) heard += Buffer.from(piece).toString()
        connection.close()
        expect(heard).toBe("got hello")
        await box.commands.kill(id)

        await box.files.write("app/new", "new\n")
        expect(await box.git.diff("app")).toContain("+new")
        await box.git.commit("app", "A file", { all: true })
        expect((await box.git.changes("app")).files).toEqual([])
      },
      DEADLINE_MS,
    )

    further(
      "runs prompts of the shell agent, and reports their output",
      async () => {
        const signal = new AbortController().signal
        const image = engine.image
        const stage = await setStage(signal, {
          name: "docker",
          image,
          engine: { socketPath: engine.socket },
        })
        try {
          const workspace = WorkspaceSpec.parse({ slug: "prompts", network: { kind: "none" } })
          const sandbox = await stage.standalone.launch(workspace, "fresh")
          await sandbox.until(({ type }) => type === "boot.ready")
          expect(await sandbox.prompt("echo one > file; cat file; id -u")).toMatchObject({
            state: "succeeded",
            output: "one\n1000\n",
          })
          expect(await sandbox.prompt("exit 3")).toMatchObject({ state: "failed" })
        } finally {
          await stage.close()
        }
        expect(await engine.containers()).toHaveLength(1)
      },
      DEADLINE_MS,
    )

    further("passes a command's streams and status on, and a signal to it", async () => {
      const told = await server.berth(["exec", "app", "--", "sh", "-c", "cat; exit 7"], "in\n")
      expect(told).toMatchObject({ stdout: Buffer.from("in\n"), status: 7 })
      const child = server.startBerth([
        ...["exec", "app", "--", "sh", "-c"],
        "trap 'echo caught; exit 9' INT; echo up; while :; do sleep 0.05; done",
      ])
      await once(child.stdout, "data")
      const ended = once(child, "close")
      child.kill("SIGINT")
      expect((await ended)[0]).toBe(9)
    })

    further(
      "[R1.9] goes on when the server is killed, and is adopted by the next server",
      async () => {
        const { id } = await box.commands.start("echo before; exec sleep 1000")
        await server.kill()
        expect(processesOf(await engine.containers()).join("\n")).toContain("sleep 1000")
        await server.restart()
        box = server.sandbox(box.id)
        expect(await box.get()).toMatchObject({ phase: "ready", boot: { outcome: "succeeded" } })
        expect(await box.files.readText("app/README")).toBe("hello\n")
        expect(await box.commands.kill(id)).toMatchObject({ exit: { signal: "SIGTERM" } })
      },
      DEADLINE_MS,
    )

    further(
      "[R1.13] gives a workspace its caches, and leaves out a cache whose volume is not Berth's, with a warning",
      async () => {
        const { installation } = (await box.get()).identity
        const foreign = `berth-${installation}-cached-go`
        await engine.makeVolume(foreign)
        const workspace = {
          slug: "cached",
          network: { kind: "none" as const },
          caches: ["npm" as const, "cargo" as const, "go" as const],
        }
        const create = () => server.client().sandboxes.create({ workspace })
        const first = await create()
        const { warnings, identity } = await first.ready()
        expect(warnings).toEqual([expect.stringMatching(/^it has no cache for go: .*labels/)])
        const fill =
          'echo a > "$npm_config_cache/x"; echo b > ~/.cargo/registry/x; stat -c %U ~/.cargo; echo "[$GOCACHE]"'
        expect(await first.commands.run(fill)).toMatchObject({ stdout: "agent\n[]\n", stderr: "" })
        await first.stop({ force: true })

        const second = await create()
        const look = await second.commands.run('cat "$npm_config_cache/x" ~/.cargo/registry/x')
        expect(look.stdout).toBe("a\nb\n")
        expect((await second.get()).identity.configHash).toBe(identity.configHash)
        const strange = (await engine.volumes()).filter(({ Name }) => !Name.startsWith("berth-"))
        expect(strange).toEqual([])

        await second.remove({ force: true })
        const left = (await engine.volumes()).map(({ Name }) => Name)
        expect(left.filter((name) => name.includes("-cached-"))).toEqual([foreign])
        await engine.removeVolume(foreign)
      },
      DEADLINE_MS,
    )

    further(
      "takes the named image, or says in the engine's words that there is none",
      async () => {
        const up = (image: string) =>
          server.berth(["up", "--name", "other", "--network", "none", "--image", image])
        const absent = await up("127.0.0.1:1/x")
        expect(absent.stderr).toMatch(/there is no image 127\.0\.0\.1:1\/x: .*refused/)
        const made = await up("berth-test/system")
        expect(withoutWaits(made.stderr)).toMatch(/^other is ready after \d+ ms\n$/)
        expect(await server.berth(["rm", "other"])).toMatchObject({ status: 0 })
      },
      DEADLINE_MS,
    )

    further(
      "has a server that answers before its engine does, and lists sandboxes once the engine is there",
      async () => {
        const late = join(server.base, "late.sock")
        const flags = ["--backend", "docker", "--engine", `unix://${late}`, "--image", engine.image]
        const other = await openServer(flags)
        const forward = createServer((socket) => {
          const onward = connect(engine.socket)
          pipeline(socket, onward, socket, () => {})
        })
        try {
          const list = () => other.client().sandboxes.list()
          await expect(list()).rejects.toMatchObject({ code: "backend.unavailable" })
          forward.listen(late)
          await expect
            .poll(() => list().catch(({ code }) => code), { timeout: DEADLINE_MS })
            .toEqual([])
        } finally {
          await other.close()
          forward.close()
        }
      },
      DEADLINE_MS,
    )

    further(
      "[R1.8] leaves no process, container, volume or folder when it is removed",
      async () => {
        const made = await server.berth(["up", "--name", "short", "--network", "none"])
        const id = made.stdout.toString().trim()
        const mine = (await engine.containers()).filter(
          ({ Labels }) => Labels["berth.sandbox"] === id,
        )
        expect(processesOf(mine)).not.toEqual([])
        expect(await server.berth(["rm", "short"])).toMatchObject({ status: 0 })
        expect(processesOf(mine)).toEqual([])
        expect(await engine.containers()).toHaveLength(1)
        expect((await engine.volumes()).filter(({ Name }) => Name.includes(id))).toEqual([])
        for (const place of ["links", "docker/sandboxes"])
          expect(readdirSync(join(server.dataDir, place))).not.toContain(id)
      },
      DEADLINE_MS,
    )
  })

  describe("a sandbox whose engine starts again", () => {
    let outlived: string
    it(
      "[R1.9] [R3.4] goes on with its prompt and its terminal through a restart of the engine with live-restore, and can then be stopped and removed",
      async () => {
        const name = "through"
        const workspace = { slug: name, network: { kind: "none" as const } }
        const through = await server.client().sandboxes.create({ workspace })
        await through.ready()
        const session = await server.client().sessions.create({ workspace: name })
        const followed: Event[] = []
        const over = new AbortController()
        const following = (async () => {
          for await (const event of session.events({ signal: over.signal })) followed.push(event)
        })().catch(() => {})
        const count =
          "n=0; until [ -e go ]; do n=$((n+1)); echo line $n; sleep 0.05; done; echo end $n"
        const { id } = await session.prompt(count)
        await expect.poll(() => textOf(followed)).toContain("line 3\n")
        const view = await through.pty.create({ command: ["sh"], cols: 80, rows: 24 })
        await view.write("echo be''fore\n")
        const shown = await shownUntil(view.output, "before")

        await engine.restart()
        const before = textOf(followed)
        await view.write("echo af''ter; exit\n")
        expect(await shownUntil(shown, "after")).toBeDefined()
        await expect.poll(() => textOf(followed).length).toBeGreaterThan(before.length)
        await expect
          .poll(async () => (await through.get().catch(({ code }) => code)).phase)
          .toBe("ready")
        expect(await session.prompts()).toMatchObject([
          { id, state: "running", sandbox: through.id },
        ])

        await through.files.write("go", "")
        await expect.poll(async () => (await session.prompts())[0]?.state).toBe("succeeded")
        const { lastEvent } = await session.get()
        await expect.poll(() => followed.at(-1)?.sequence).toBe(lastEvent)
        over.abort()
        await following
        expect(followed.map(({ sequence }) => sequence)).toEqual(
          Array.from({ length: lastEvent }, (_, index) => index + 1),
        )
        const lines = textOf(followed).trimEnd().split("\n")
        const last = lines.length - 1
        const numbered = Array.from({ length: last }, (_, index) => `line ${index + 1}`)
        expect(lines).toEqual([...numbered, `end ${last}`])
        expect(statesOf(followed)).toEqual(["queued", "running", "succeeded"])

        expect(await server.berth(["stop", name])).toMatchObject({ status: 0, stderr: "" })
        expect(await through.files.readText("go")).toBe("")
        expect(await server.berth(["rm", name, "--force"])).toMatchObject({ status: 0, stderr: "" })
        expect((await server.berth(["ps"])).stdout.toString()).not.toContain(name)
        outlived = through.id
      },
      2 * DEADLINE_MS,
    )

    it(
      "[R3.5] leaves its files to the next sandbox when its engine was killed and ended it",
      async () => {
        await box.files.write("kept", "kept\n")
        await box.files.write("app/new", "new\n")
        await engine.restart({ liveRestore: false })
        await expect
          .poll(async () => await box.get().catch(({ code }) => code), { timeout: DEADLINE_MS })
          .toMatchObject({ phase: "gone" })
        const made = await server.berth(["up", repo, "--network", "none"])
        expect(withoutWaits(made.stderr)).toMatch(/^app is ready after \d+ ms\n$/)
        const next = server.sandbox(made.stdout.toString().trim())
        expect(next.id).not.toBe(box.id)
        expect(await next.files.readText("kept")).toBe("kept\n")
        expect(await next.files.readText("app/new")).toBe("new\n")
        // Engines before 23 kept the empty volumes of the sandbox that had outlived their restart until now.
        const named = async () => (await engine.volumes()).map(({ Name }) => Name)
        await expect
          .poll(async () => (await named()).filter((each) => each.includes(outlived)))
          .toEqual([])
      },
      2 * DEADLINE_MS,
    )
  })
})
