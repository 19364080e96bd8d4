import { readdirSync } from "node:fs"
import { connect, createServer } from "node:net"
import { join } from "node:path"
import { pipeline } from "node:stream"
import type { Event } from "@berth/protocol/event"
import { requires } from "@berth/testing/requires"
import { sampledCases } from "@berth/testing/sampled-cases"
import { withoutWaits } from "@berth/testing/without-waits"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { makeRepo } from "../boot/stage.ts"
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
        for (const place of ["shared", "docker/sandboxes"])
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
