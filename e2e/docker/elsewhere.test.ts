import { once } from "node:events"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { mkdtemp } from "node:fs/promises"
import { connect, createServer } from "node:net"
import { networkInterfaces, tmpdir } from "node:os"
import { join } from "node:path"
import { pipeline } from "node:stream"
import { configHash } from "@berth/backends/config-hash"
import { openDocker } from "@berth/backends/docker/backend"
import { parseEngineAddress } from "@berth/local/config/engine-address"
import { newId, Slug } from "@berth/protocol/ids"
import { SandboxConfig, type SandboxSpec } from "@berth/protocol/sandbox"
import { SHARED } from "@berth/protocol/shared-directory"
import { requires } from "@berth/testing/requires"
import { sampledCases } from "@berth/testing/sampled-cases"
import { withoutWaits } from "@berth/testing/without-waits"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { makeRepo } from "../boot/stage.ts"
import { openServer } from "../sandboxes/server.ts"
import { startEngine } from "./engine.ts"

/** Covers the start of an engine, a toolbox that is built and sent there, and boots beside other tests. */
const STAGE_DEADLINE_MS = 180_000
const DEADLINE_MS = 60_000

requires("root", "docker", "tini", "networkNamespaces").describe("an engine elsewhere", () => {
  let hidden: string
  let engine: Awaited<ReturnType<typeof startEngine>>
  beforeAll(async () => {
    hidden = mkdtempSync(join(tmpdir(), "berth-unseen-"))
    engine = await startEngine({ networks: true, hidden })
  }, STAGE_DEADLINE_MS)
  afterAll(async () => {
    await engine?.stop()
    rmSync(hidden, { recursive: true, force: true })
  }, STAGE_DEADLINE_MS)

  describe("through a server", () => {
    let server: Awaited<ReturnType<typeof openServer>>
    let box: ReturnType<typeof server.sandbox>
    let repo: string
    beforeAll(async () => {
      server = await openServer(engine.flags, hidden)
      repo = makeRepo(join(server.base, "app"), {
        README: "hello\n",
        ".berth/start.sh": "#!/bin/sh\nid -u > made-by-start; touch ~/of-home\n",
      })
      const made = await server.berth(["up", repo])
      expect(withoutWaits(made.stderr)).toMatch(/^app is ready after \d+ ms\n$/)
      box = server.sandbox(made.stdout.toString().trim())
    }, STAGE_DEADLINE_MS)
    afterAll(() => server?.close(), STAGE_DEADLINE_MS)

    const mine = async () => {
      const all = await engine.containers()
      return all.find(({ Labels }) => Labels["berth.sandbox"] === box.id)
    }

    it("boots a sandbox with its files in volumes, and a port of the loopback as its link", async () => {
      expect(await box.files.readText("app/README")).toBe("hello\n")
      expect(await box.files.readText("app/made-by-start")).toBe("1000\n")
      const { Mounts = [], Ports = [] } = (await mine()) ?? {}
      expect(new Set(Mounts.map(({ Type }) => Type))).toEqual(new Set(["volume"]))
      const [port] = Ports
      expect(Ports).toEqual([expect.objectContaining({ IP: "127.0.0.1", Type: "tcp" })])
      const refused = await fetch(`http://127.0.0.1:${port?.PublicPort}/health`)
      expect(refused.status).toBe(401)
    })

    it(
      "[R1.9] has its sandbox adopted by the next server when one is killed",
      async () => {
        const { id } = await box.commands.start("exec sleep 1000")
        await server.kill()
        await server.restart()
        box = server.sandbox(box.id)
        expect(await box.get()).toMatchObject({ phase: "ready" })
        expect(await box.commands.kill(id)).toMatchObject({ exit: { signal: "SIGTERM" } })
      },
      DEADLINE_MS,
    )

    it("is refused while sandboxes reach its own port, where they would be root of its machine", async () => {
      const gateway = Object.values(networkInterfaces())
        .flatMap((addresses) => addresses ?? [])
        .find(({ address }) => address.startsWith("10.215."))
      const port = Number(new URL(engine.tcp).port)
      // With this proxy, the engine seems to listen on all of its addresses.
      const exposing = createServer((outer) => {
        const inner = connect(port, "127.0.0.1")
        pipeline(outer, inner, outer, () => {})
      }).listen(port, gateway?.address)
      await once(exposing, "listening")
      try {
        const other = makeRepo(join(server.base, "other"), { README: "other\n" })
        const refused = await server.berth(["up", other])
        expect(refused.status).not.toBe(0)
        expect(refused.stderr).toContain("the engine's own port can be reached from sandboxes")
      } finally {
        exposing.close()
      }
    })

    it("has no token of a sandbox in its own description of the container", async () => {
      const tokens = readdirSync(server.dataDir, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() && entry.name === SHARED.token)
        .map(({ parentPath, name }) => readFileSync(join(parentPath, name), "utf8").trim())
      expect(tokens).not.toEqual([])
      const told = await engine.inspect((await mine())?.Id ?? "")
      expect(told).toContain(box.id)
      expect(tokens.filter((token) => told.includes(token))).toEqual([])
    })

    it(
      "[R3.5] leaves nothing of a stopped sandbox but the workspace's files, for the next sandbox",
      async () => {
        await box.files.write("kept", "kept\n")
        expect(await server.berth(["stop", box.id])).toMatchObject({ status: 0 })
        expect(await mine()).toBeUndefined()
        const left = (await engine.volumes()).filter(({ Name }) => Name.includes(box.id))
        expect(left).toEqual([])
        const made = await server.berth(["up", repo])
        expect(withoutWaits(made.stderr)).toMatch(/^app is ready after \d+ ms\n$/)
        box = server.sandbox(made.stdout.toString().trim())
        expect(await box.files.readText("kept")).toBe("kept\n")
        const home = await box.commands.run("ls -A ~; stat -c '%u %a' ~")
        expect(home.stdout).toMatch(/of-home\n1000 700\n$/)
      },
      DEADLINE_MS,
    )

    sampledCases("further cases of an engine elsewhere", 1, (further) => {
      further(
        "runs commands, and passes a file of 20 MB in and out",
        async () => {
          const command = await box.commands.run("cat; exit 3", { stdin: "in\n" })
          expect(command).toMatchObject({ stdout: "in\n", status: 3 })
          const large = new Uint8Array(20_000_000).map((_, place) => place % 251)
          await box.files.write("large", large)
          expect(Buffer.from(await box.files.read("large")).equals(Buffer.from(large))).toBe(true)
          await box.files.remove("large")
        },
        DEADLINE_MS,
      )

      further(
        "refuses a fork, an export and an import with its reason before anything is made",
        async () => {
          const before = (await engine.volumes()).map(({ Name }) => Name).toSorted()
          const refused = await server.berth(["fork", "app", "copy", "--json"])
          expect(refused.status).not.toBe(0)
          expect(JSON.parse(refused.stderr).error).toMatchObject({
            code: "backend.unsupported",
            message: expect.stringContaining("volumes of its engine"),
          })
          expect((await engine.volumes()).map(({ Name }) => Name).toSorted()).toEqual(before)
          expect((await server.berth(["ps"])).stdout.toString()).not.toContain("copy")
          for (const deed of [
            ["export", "app"],
            ["import", "copy"],
          ]) {
            const { stdout, stderr, status } = await server.berth(["layers", ...deed], "anything")
            expect({ stdout: stdout.toString(), status }).toEqual({ stdout: "", status: 1 })
            expect(stderr).toMatch(/volumes of its engine, .*: it cannot be (ex|im)ported/)
          }
          await expect(server.client().workspaces.get("copy")).rejects.toMatchObject({
            code: "not_found",
          })
          const listed = await server.berth(["layers"])
          expect(listed.stdout.toString()).toContain("docker volume ls")
        },
      )

      further(
        "removes the workspace's files from the engine with the workspace",
        async () => {
          const filesOfApp = async () =>
            (await engine.volumes())
              .map(({ Name }) => Name)
              .filter((name) => name.includes("-app-files-"))
          expect(await filesOfApp()).toHaveLength(2)
          expect(await server.berth(["rm", box.id])).toMatchObject({ status: 0 })
          expect(await filesOfApp()).toEqual([])
          const made = await server.berth(["up", repo])
          expect(withoutWaits(made.stderr)).toMatch(/^app is ready after \d+ ms\n$/)
          box = server.sandbox(made.stdout.toString().trim())
          await expect(box.files.readText("kept")).rejects.toMatchObject({
            code: "files.not_found",
          })
        },
        DEADLINE_MS,
      )
    })
  })

  it("is named in the backend's description, and refuses mounts of the host's files and sandboxes without a network", async () => {
    const installation = newId.installation()
    const address = parseEngineAddress(engine.tcp)
    if (address === undefined) throw new Error("no address")
    const directory = await mkdtemp(join(hidden, "data-"))
    const { image } = engine
    const backend = await openDocker({ installation, directory, image, engine: address })
    const specOf = (overrides: object): SandboxSpec => {
      const system = { kind: "image", digest: image }
      const network = { kind: "open" }
      const config = SandboxConfig.parse({ system, command: ["/bin/sh"], network, ...overrides })
      const workspace = Slug.parse("test")
      const hash = configHash(config)
      const identity = { installation, workspace, sandbox: newId.sandbox(), configHash: hash }
      return { identity, config }
    }
    try {
      const told = await backend.describe()
      expect(told).toMatchObject({ layers: false, networks: ["open"] })
      const notes = told.notes.join("\n")
      for (const word of [/elsewhere/, /plain volumes/, /port/, /No rules/])
        expect(notes).toMatch(word)
      const unsupported = { code: "backend.unsupported" }
      const mounts = [{ kind: "directory", source: hidden, target: "/data" }]
      for (const overrides of [{ network: { kind: "none" } }, { mounts }])
        await expect(backend.create(specOf(overrides))).rejects.toMatchObject(unsupported)
    } finally {
      await backend.close()
    }
  })
})
