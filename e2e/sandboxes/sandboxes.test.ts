import { execFileSync } from "node:child_process"
import { once } from "node:events"
import {
  chmodSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { sampled } from "@berth/testing/sampled"
import { sampledCases } from "@berth/testing/sampled-cases"
import { withoutWaits } from "@berth/testing/without-waits"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { BACKENDS, describeOn, flagsOf } from "../backends.ts"
import { makeRepo, processesOf } from "../boot/stage.ts"
import { describeCuts } from "./cuts.ts"
import { describeHostileCopy } from "./hostile-copy.ts"
import { describeLoad } from "./load.ts"
import { openServer } from "./server.ts"
import { describeShell, openShell } from "./shell.ts"

/** Covers the making of a toolbox, and boots beside other tests. */
const STAGE_DEADLINE_MS = 120_000

describeOn(
  sampled("backends of sandboxes through a server", BACKENDS, 1),
  "sandboxes through a server",
  (backend) => {
    let server: Awaited<ReturnType<typeof openServer>>
    let box: ReturnType<typeof server.sandbox>
    beforeAll(async () => {
      server = await openServer(await flagsOf(backend))
      const repo = makeRepo(join(server.base, "app"), { README: "hello\n" })
      const made = await server.berth(["up", repo, "--network", "none"])
      expect(withoutWaits(made.stderr)).toMatch(/^app is ready after \d+ ms\n$/)
      box = server.sandbox(made.stdout.toString().trim())
    }, STAGE_DEADLINE_MS)
    afterAll(() => server?.close(), STAGE_DEADLINE_MS)

    const exec = (line: readonly string[], input?: string | Buffer) =>
      server.berth(["exec", box.id, "--", ...line], input)

    it("`fetch` and `apply` bring commits and changes of the sandbox into the repo on the host", async () => {
      const git = (...args: string[]) =>
        execFileSync("git", ["-C", join(server.base, "app"), ...args], { encoding: "utf8" })
      const inside = [
        "git checkout -q -b fix && echo fixed > fixed.txt && git add fixed.txt",
        "git -c user.name=a -c user.email=a@b commit -q -m fix && printf 'caf\\351' > latin1.txt",
      ]
      expect(await box.commands.run(inside.join(" && "))).toMatchObject({ status: 0 })
      const into = ["--into", join(server.base, "app")]
      const fetched = await server.berth(["fetch", "app", ...into])
      expect(fetched).toMatchObject({ stdout: Buffer.from("berth/app/fix\n"), status: 0 })
      expect(git("show", "berth/app/fix:fixed.txt")).toBe("fixed\n")
      expect(git("status", "--porcelain")).toBe("")
      const applied = await server.berth(["apply", "app", ...into])
      expect(applied).toMatchObject({ stdout: Buffer.from("latin1.txt\n"), status: 0 })
      expect(readFileSync(join(server.base, "app/latin1.txt"))).toEqual(
        Buffer.from("caf\xe9", "latin1"),
      )
      const again = await server.berth(["apply", "app", ...into])
      expect(again.stderr).toContain("already exists")
      await box.commands.run("rm latin1.txt; git checkout -q main")
    })

    sampledCases("further repos of the host", 1, (it) => {
      it("`up` tells of uncommitted changes on the host, and brings them with --dirty", async () => {
        const repo = makeRepo(join(server.base, "dirty"), { README: "hello\n", gone: "x\n" })
        writeFileSync(join(repo, "README"), "hello\nmore\n")
        writeFileSync(join(repo, "new ü.bin"), Buffer.from([0, 255, 10]))
        rmSync(join(repo, "gone"))
        const told = await server.berth(["up", repo, "--name", "clean", "--network", "none"])
        expect(withoutWaits(told.stderr)).toMatch(
          /^3 changed files are not in the sandbox; --dirty brings them\n/,
        )
        const up = ["up", repo, "--name", "dirty", "--network", "none", "--dirty"]
        expect(await server.berth(up)).toMatchObject({ status: 0 })
        const look = ["exec", "dirty", "--", "sh", "-c", "cat README; ls; od -An -tx1 new*"]
        const { stdout } = await server.berth(look)
        expect(stdout.toString()).toBe("hello\nmore\nREADME\nnew ü.bin\n 00 ff 0a\n")
        const status = execFileSync("git", ["-C", repo, "status", "--porcelain", "--short"])
        expect(status.toString().split("\n").length - 1).toBe(3)
        expect((await server.berth(up)).stderr).toContain("has changes of its own")
        await server.berth(["rm", "--force", "clean", "dirty"])
      })

      it("`up` brings a shallow clone of the host as it is", async () => {
        const source = makeRepo(join(server.base, "deep"), { README: "first\n" })
        const git = (directory: string, ...args: string[]) =>
          execFileSync("git", [
            "-C",
            directory,
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            ...args,
          ])
        git(source, "commit", "--quiet", "--allow-empty", "-m", "second")
        const shallow = join(server.base, "shallow")
        git("/", "clone", "--quiet", "--depth=1", `file://${source}`, shallow)
        const up = ["up", shallow, "--network", "none"]
        expect(await server.berth(up)).toMatchObject({ status: 0 })
        const look = [
          "exec",
          "shallow",
          "--",
          "sh",
          "-c",
          "git log --format=%s && git fsck && cat README",
        ]
        expect(await server.berth(look)).toMatchObject({
          stdout: Buffer.from("second\nfirst\n"),
          status: 0,
        })
        await server.berth(["rm", "--force", "shallow"])
      })
    })

    describe("the SDK", () => {
      it("runs commands, with their streams and statuses apart", async () => {
        const result = await box.commands.run("cat; echo wrong >&2; exit 3", { stdin: "in\n" })
        expect(result).toMatchObject({ stdout: "in\n", stderr: "wrong\n", status: 3, signal: null })
        expect(await box.commands.run(["sh", "-c", "kill -9 $$"])).toMatchObject({
          status: null,
          signal: "SIGKILL",
        })
        const slow = await box.commands.run(["sleep", "100"], { timeoutMs: 50 })
        expect(slow.timedOut).toBe(true)
        await expect(box.commands.run(["no-such-program"])).rejects.toMatchObject({
          code: "process.not_found",
        })
        await expect(box.commands.run("true", { cwd: "/nowhere" })).rejects.toMatchObject({
          code: "process.no_directory",
        })
      })

      it("starts commands in the only repo, or in the directory that the caller names", async () => {
        expect((await box.commands.run("pwd")).stdout).toBe("/workspace/app\n")
        expect((await box.commands.run("pwd", { cwd: "." })).stdout).toBe("/workspace\n")
        expect((await exec(["cat", "README"])).stdout.toString()).toBe("hello\n")
        const command = ["sh", "-c", "pwd; exit"]
        const { id } = await box.pty.create({ command, cols: 80, rows: 24 })
        expect((await box.pty.get(id)).cwd).toBe("/workspace/app")
      })

      it("passes a command's arguments and variables unchanged, be they short or long", async () => {
        for (const word of ["a b&c=%20+ä\n", "long".repeat(5_000)]) {
          const { stdout } = await box.commands.run(["printf", "%s", word])
          expect(stdout).toBe(word)
          const env = { WORD: word }
          expect((await box.commands.run('printf %s "$WORD"', { env })).stdout).toBe(word)
        }
      })

      it("ends a command when its caller goes away", async () => {
        const gone = new AbortController()
        const running = await box.commands.spawn(["sleep", "4711"], { signal: gone.signal })
        const isThere = () =>
          processesOf(box.id).some(({ command }) => command.includes("sleep 4711"))
        expect(isThere()).toBe(true)
        gone.abort()
        await expect(running.output[Symbol.asyncIterator]().next()).rejects.toMatchObject({
          code: "cancelled",
        })
        await expect.poll(isThere).toBe(false)
      })

      it("reads, writes, lists, moves and removes files, of any size", async () => {
        const large = new Uint8Array(20_000_000).map((_, place) => place % 251)
        await box.files.write("large", large)
        expect(Buffer.from(await box.files.read("large")).equals(Buffer.from(large))).toBe(true)
        const part = await box.files.readStream("large", { from: 251, to: 254 })
        expect(await new Response(part).bytes()).toEqual(new Uint8Array([0, 1, 2, 3]))
        await box.files.move("large", "moved")
        const { entries } = await box.files.list(".")
        expect(entries.map(({ path }) => path)).toEqual(["app", "moved"])
        await box.files.remove("moved")
        await expect(box.files.stat("moved")).rejects.toMatchObject({ code: "files.not_found" })
      })

      it("writes many files of any name, reports them to a watch, finds them, and moves them to another file system", async () => {
        await box.files.makeDirectory("many")
        const gone = new AbortController()
        const told: string[] = []
        const watching = (async () => {
          for await (const message of box.files.watch("many", { signal: gone.signal })) {
            if (message.type === "ready") told.push("ready")
            if (message.type === "changes")
              told.push(...message.changes.map(({ path }) => JSON.stringify(path)))
          }
        })().catch(() => {})
        await expect.poll(() => told).toEqual(["ready"])
        const names = [
          "new\nline",
          "n".repeat(255),
          { base64: Buffer.of(0xff, 0xfe).toString("base64") },
        ]
        const below = (name: (typeof names)[number]) =>
          typeof name === "string"
            ? `many/${name}`
            : {
                base64: Buffer.concat([Buffer.from("many/"), Buffer.of(0xff, 0xfe)]).toString(
                  "base64",
                ),
              }
        const files = names.map((name) => ({ path: below(name), content: "needle\n" }))
        const written = await box.files.writeMany(files)
        expect(written.map(({ error }) => error)).toEqual([undefined, undefined, undefined])
        await expect.poll(() => told.length).toBeGreaterThanOrEqual(4)
        expect(told.slice(1).toSorted()).toEqual(
          names.map((name) => JSON.stringify(name)).toSorted(),
        )
        gone.abort()
        await watching
        const found: unknown[] = []
        for await (const line of box.files.search({ path: "many", content: "need.e" }))
          if (line.type === "match") found.push(line.path)
        expect(found).toHaveLength(3)
        // The destination is on another file system.
        await box.files.move("many", "/tmp/moved")
        expect((await box.files.list("/tmp/moved")).entries.map(({ path }) => path)).toEqual(
          expect.arrayContaining(names),
        )
        await box.files.remove("/tmp/moved", { recursive: true })
      })

      it("opens a terminal, and attaches to it again", async () => {
        const view = await box.pty.create({ command: ["sh"], cols: 91, rows: 33 })
        await view.write("stty size; echo do''ne\n")
        let seen = ""
        for await (const bytes of view.output) {
          seen += Buffer.from(bytes).toString()
          if (seen.includes("done")) break
        }
        expect(seen).toContain("33 91")
        view.close()
        const again = await box.pty.attach(view.id)
        await again.write("exit 5\n")
        let replayed = ""
        for await (const bytes of again.output) replayed += Buffer.from(bytes).toString()
        expect(replayed).toContain("done")
        expect(await again.exit).toEqual({ status: 5, signal: null })
      })

      it("reaches ports of the sandbox's loopback, and tells when they open", async () => {
        const gone = new AbortController()
        const told: unknown[] = []
        const watching = (async () => {
          for await (const message of box.ports.watch({ signal: gone.signal })) {
            told.push(message)
            if (message.type === "opened") return message.port
          }
          return undefined
        })()
        await expect.poll(() => told.length).toBe(1)
        const script = `require("net").createServer((s) => s.on("data", (d) => s.end("got " + d)))
          .listen(3456, "127.0.0.1")`
        const { id } = await box.commands.start(["/opt/berth/bin/node", "-e", script])
        expect(await watching).toBe(3456)
        gone.abort()
        expect((await box.ports.list()).map(({ port }) => port)).toContain(3456)
        const connection = await box.ports.connect(3456)
        await connection.write(Buffer.from("hello"))
        let heard = ""
        for await (const bytes of connection.output) heard += Buffer.from(bytes).toString()
        connection.close()
        expect(heard).toBe("got hello")
        await box.commands.kill(id)
        await expect(box.ports.connect(3456)).rejects.toMatchObject({ code: "ports.refused" })
      })

      it("shows and commits changes, and brings them out as a bundle", async () => {
        await box.files.write("app/new file", "new\n")
        expect(await box.git.status("app")).toMatchObject({ branch: "main", isCut: false })
        expect(await box.git.diff("app")).toContain("+new")
        const { id } = await box.git.commit("app", "A file", { all: true })
        const { commits } = await box.git.log("app", { limit: 1 })
        expect(commits).toMatchObject([{ id, message: expect.stringContaining("A file") }])
        expect((await box.git.changes("app")).files).toEqual([])
        const bundle = await new Response(await box.git.bundle("app")).bytes()
        expect(Buffer.from(bundle).toString("latin1")).toMatch(/^# v\d git bundle\n/)
      })

      it("reports the server's errors, also for WebSockets", async () => {
        const nobody = server.sandbox("sb-00000000000000000000")
        await expect(nobody.get()).rejects.toMatchObject({ code: "not_found" })
        await expect(nobody.commands.run("true")).rejects.toMatchObject({ code: "not_found" })
        await expect(nobody.files.read("x")).rejects.toMatchObject({ code: "not_found" })
        await expect(box.commands.attach("cmd-nothing")).rejects.toMatchObject({
          code: expect.stringMatching(/^(not_found|command|input)/),
        })
      })
    })

    describe("the command line", () => {
      it("passes input, output, errors and the status of a command on", async () => {
        const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
        const told = await exec(["sh", "-c", "cat; echo wrong >&2; exit 7"], bytes)
        expect(told).toEqual({ stdout: bytes, stderr: "wrong\n", status: 7 })
        expect(await exec(["sh", "-c", "kill -TERM $$"])).toMatchObject({ status: 143 })
        expect(await exec(["no-such-program"])).toMatchObject({ status: 127 })
        const asRoot = await server.berth(["exec", "app", "--user", "root", "--", "id", "-u"])
        expect(asRoot.stdout.toString()).toBe("0\n")
        expect(await server.berth(["exec", "nobody", "--", "true"])).toMatchObject({
          status: 125,
          stderr: expect.stringContaining("there is no sandbox nobody"),
        })
      })

      it("forwards signals to a command", async () => {
        const child = server.startBerth([
          ...["exec", "app", "--", "sh", "-c"],
          "trap 'echo caught; exit 9' INT; echo up; while :; do sleep 0.05; done",
        ])
        const [first] = await once(child.stdout, "data")
        expect(String(first)).toBe("up\n")
        const ended = Promise.all([child.stdout.toArray(), once(child, "close")])
        child.kill("SIGINT")
        const [rest, [status]] = await ended
        expect([Buffer.concat(rest).toString(), status]).toEqual(["caught\n", 9])
      })

      it("copies files and folders in and out", async () => {
        const folder = join(server.base, "folder")
        mkdirSync(join(folder, "deep"), { recursive: true })
        writeFileSync(join(folder, "deep", "run.sh"), "#!/bin/sh\n", { mode: 0o755 })
        writeFileSync(join(folder, "new\nline"), "odd\n")
        symlinkSync("deep/run.sh", join(folder, "link"))
        const copy = (...args: string[]) => server.berth(["cp", ...args])
        const fine = { status: 0, stderr: "" }
        expect(await copy(folder, "app:/tmp/copy")).toMatchObject(fine)
        expect(await copy(`${box.id}:/tmp/copy`, "back")).toMatchObject(fine)
        const back = join(server.base, "back")
        expect(readFileSync(join(back, "link"), "utf8")).toBe("#!/bin/sh\n")
        expect(readFileSync(join(back, "new\nline"), "utf8")).toBe("odd\n")
        expect(statSync(join(back, "deep/run.sh")).mode & 0o777).toBe(0o755)
        expect(await copy(join(folder, "deep/run.sh"), "app:app/")).toMatchObject(fine)
        expect(await copy("app:app/run.sh", "back")).toMatchObject(fine)
        expect(statSync(join(back, "run.sh")).mode & 0o777).toBe(0o755)
        expect(await copy("a", "b")).toMatchObject({ status: 2 })
        expect(await copy("app:app/run.sh", "nowhere/x")).toMatchObject({
          status: 2,
          stderr: expect.stringContaining("nowhere/x of this machine"),
        })
      })

      it("keeps times and modes of a folder both ways, and skips what cannot be copied", async () => {
        const folder = join(server.base, "dated")
        const at = new Date("2001-02-03T04:05:06Z")
        mkdirSync(join(folder, "sub"), { recursive: true })
        writeFileSync(join(folder, "sub/file"), "dated", { mode: 0o640 })
        symlinkSync("file", join(folder, "sub/link"))
        execFileSync("mkfifo", [join(folder, "pipe")])
        chmodSync(join(folder, "sub"), 0o750)
        for (const name of ["sub/file", "sub/link", "sub"]) lutimesSync(join(folder, name), at, at)
        expect(await server.berth(["cp", folder, "app:/tmp/dated"])).toMatchObject({
          status: 0,
          stderr: `skipped ${folder}/pipe: it is a named pipe\n`,
        })
        const inside = "cd /tmp/dated && stat -c '%n %a %Y' sub sub/file; stat -c %Y sub/link"
        const seconds = at.getTime() / 1000
        expect((await box.commands.run(inside)).stdout).toBe(
          `sub 750 ${seconds}\nsub/file 640 ${seconds}\n${seconds}\n`,
        )
        await box.commands.run("mkfifo /tmp/dated/sub/other; touch -d @981173106 /tmp/dated/sub")
        expect(await server.berth(["cp", "app:/tmp/dated", "dated-back"])).toMatchObject({
          status: 0,
          stderr: "skipped sub/other: it is a named pipe\n",
        })
        for (const [name, mode] of Object.entries({ sub: 0o750, "sub/file": 0o640 })) {
          const found = lstatSync(join(server.base, "dated-back", name))
          expect([name, found.mode & 0o777, found.mtimeMs]).toEqual([name, mode, at.getTime()])
        }
        expect(lstatSync(join(server.base, "dated-back/sub/link")).mtimeMs).toBe(at.getTime())
        await box.commands.run("chmod 0 /tmp/dated/sub/file")
        expect(await server.berth(["cp", "app:/tmp/dated", "part"])).toMatchObject({
          status: 1,
          stderr: expect.stringContaining("skipped sub/file: it is closed to the sandbox's user\n"),
        })
        expect(readdirSync(join(server.base, "part/sub"))).toEqual(["link"])
      })

      it("keeps the old file and nothing else when a copy is cancelled", async () => {
        await box.commands.run("truncate -s 8G /tmp/endless")
        const folder = join(server.base, "cancelled")
        mkdirSync(folder)
        writeFileSync(join(folder, "endless"), "old")
        const child = server.startBerth(["cp", "app:/tmp/endless", folder])
        await expect.poll(() => readdirSync(folder).length).toBe(2)
        child.kill("SIGINT")
        await once(child, "close")
        expect(readdirSync(folder)).toEqual(["endless"])
        expect(readFileSync(join(folder, "endless"), "utf8")).toBe("old")
      })

      it("lists sandboxes, and removes them", async () => {
        const { stdout } = await server.berth(["ps", "--json"])
        expect(JSON.parse(stdout.toString()).sandboxes).toMatchObject([
          { identity: { sandbox: box.id, workspace: "app" }, phase: "ready" },
        ])
        const made = await server.berth(["up", "--name", "short", "--network", "none"])
        const id = made.stdout.toString().trim()
        expect((await server.berth(["ps"])).stdout.toString()).toContain(`${id}  short  ready`)
        expect(await server.berth(["rm", "short"])).toMatchObject({ status: 0 })
        expect(processesOf(server.sandbox(id).id)).toEqual([])
        expect((await server.berth(["rm", "short"])).stderr).toContain("there is no sandbox short")
      })
    })

    describeShell(() => ({ server, box }))
    describeHostileCopy(() => ({ server, box }))
    describeCuts(() => ({ server, box }))
    describeLoad(() => ({ server, box }))

    it("a sandbox goes on when the server is killed, and can be used again", async () => {
      const { id } = await box.commands.start("echo before; exec sleep 1000")
      await box.files.write("kept", "still here\n")
      const person = openShell({ server, box }, ["app", "sh"])
      await person.see(/[$#] $/)
      await server.kill()
      const [, terminal = ""] = await person.see(/berth shell SANDBOX --attach=(term-\w+)/)
      expect([await person.ended, person.isByLines()]).toEqual([125, true])
      expect(processesOf(box.id).some(({ command }) => command === "sleep 1000")).toBe(true)
      await server.restart()
      box = server.sandbox(box.id)
      expect(await box.get()).toMatchObject({ phase: "ready", boot: { outcome: "succeeded" } })
      expect(await box.files.readText("kept")).toBe("still here\n")
      const attached = await box.commands.attach(id)
      for await (const piece of attached.output) {
        if ("bytes" in piece) expect(Buffer.from(piece.bytes).toString()).toBe("before\n")
        break
      }
      attached.close()
      expect(await box.commands.kill(id)).toMatchObject({ exit: { signal: "SIGTERM" } })
      const back = openShell({ server, box }, ["app", "--attach", terminal])
      back.type("exit 6\n")
      expect(await back.ended).toBe(6)
    }, 60_000)
  },
)
