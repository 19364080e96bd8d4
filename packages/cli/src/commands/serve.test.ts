import { once } from "node:events"
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { text } from "node:stream/consumers"
import { BERTH } from "@berth/testing/berth"
import { furtherCases } from "@berth/testing/further-cases"
import { describe, expect, it } from "vitest"
import { berth, exitOf, makeDir, startProcess, startServer } from "../testing/berth.ts"
import { HALT_AT_WAIT, halted } from "../testing/halted.ts"
import { expectLogForPeople } from "../testing/log-for-people.ts"

const on = (dataDir: string) => ["--data-dir", dataDir]

const noteOf = (dataDir: string) => JSON.parse(readFileSync(join(dataDir, "server.json"), "utf8"))

/** A request whose last byte never comes, which a graceful stop waits for. */
const hangingRequest = async (url: string) => {
  const socket = connect(Number(new URL(url).port), "127.0.0.1")
  await once(socket, "connect")
  socket.on("error", () => {})
  socket.write("GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1/health HTTP/1.1\r\n")
  // The reply to the first request proves that the second one's beginning has arrived too.
  await once(socket, "data")
  return socket
}

describe("berth serve", () => {
  it("is waited for by a command that was typed together with it", async () => {
    const dataDir = join(makeDir(), "data")
    const [command, ...own] = BERTH
    const args = [...HALT_AT_WAIT, ...own, "sessions", ...on(dataDir)]
    const listing = startProcess(command, args)
    await halted(listing)
    await startServer(on(dataDir))
    listing.kill("SIGCONT")
    expect([await text(listing.stderr), await exitOf(listing)]).toEqual([
      "waiting for a server to start\n",
      0,
    ])
  })

  it("answers at the address that it notes for clients, and removes the note when it stops", async () => {
    const dataDir = join(makeDir(), "data")
    const server = await startServer(on(dataDir))
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(await (await fetch(`${server.url}/v1/health`)).json()).toMatchObject({
      pid: server.pid,
      version: expect.any(String),
    })
    expect(noteOf(dataDir)).toMatchObject({ pid: server.pid, url: server.url })
    expect(statSync(join(dataDir, "token")).mode & 0o777).toBe(0o600)

    expect(await server.stop()).toBe(0)
    expect(existsSync(join(dataDir, "server.json"))).toBe(false)
    await expect(fetch(`${server.url}/v1/health`)).rejects.toThrow()
  })

  it("says its address to people as a sentence", async () => {
    const [command, ...own] = BERTH
    const child = startProcess(command, [...own, "serve", "--port", "0", ...on(makeDir())])
    const [line] = await once(createInterface({ input: child.stdout }), "line")
    expect(line).toMatch(/^Berth answers on http:\/\/127\.0\.0\.1:\d+$/)
    child.kill("SIGINT")
    expect(await exitOf(child)).toBe(0)
  })

  it("logs one line of JSON for each of its acts, without the token", async () => {
    const dataDir = makeDir()
    const server = await startServer(on(dataDir))
    const token = readFileSync(join(dataDir, "token"), "utf8").trim()
    await fetch(`${server.url}/v1/status?token=${token}`, {
      headers: { authorization: `Bearer ${token}`, "x-request-id": token },
    })
    await server.stop("SIGINT")
    const lines = server.log.map((line) => JSON.parse(line))
    // The backend opens meanwhile, so that its line comes at any place, also where the host lacks its programs.
    expect(lines.filter(({ op }) => op === "backend.open")).toHaveLength(1)
    expect(lines.filter(({ op }) => op !== "backend.open")).toEqual([
      expect.objectContaining({ op: "server.start", outcome: "ok", url: server.url, dataDir }),
      expect.objectContaining({ op: "request.answer", outcome: "ok", status: 200 }),
      expect.objectContaining({ op: "server.stop", outcome: "ok", reason: "SIGINT" }),
    ])
    for (const line of lines) expect(line.durationMs).toEqual(expect.any(Number))
    expect(server.log.join()).not.toContain(token)
  })

  it("logs for people when its log is a terminal", async () => {
    const command = [...BERTH, "serve", "--port", "0", ...on(makeDir())].join(" ")
    await expectLogForPeople(command)
  })

  it("keeps the installation and the token from one start to the next", async () => {
    const dataDir = makeDir()
    const first = await startServer(on(dataDir))
    const before = JSON.parse((await berth(["status", "--json", ...on(dataDir)])).stdout)
    await first.stop()
    await startServer(on(dataDir))
    const after = JSON.parse((await berth(["status", "--json", ...on(dataDir)])).stdout)
    expect(after.installationId).toBe(before.installationId)
    expect(after.pid).not.toBe(before.pid)
  })

  it("refuses a data directory that another server holds, and names it", async () => {
    const dataDir = makeDir()
    const first = await startServer(on(dataDir))
    const second = await berth(["serve", "--port", "0", ...on(dataDir)])
    expect(second).toMatchObject({ status: 1, stdout: "" })
    expect(second.stderr).toContain(`pid ${first.pid}`)
    const json = await berth(["serve", "--port", "0", "--json", ...on(dataDir)])
    expect(JSON.parse(json.stderr).error).toMatchObject({
      code: "store.locked",
      details: { pid: first.pid },
    })
    expect(noteOf(dataDir)).toMatchObject({ url: first.url })
    expect((await fetch(`${first.url}/v1/health`)).status).toBe(200)
  })

  it("starts on the data directory of a killed server", async () => {
    const dataDir = makeDir()
    const first = await startServer(on(dataDir))
    expect(await first.stop("SIGKILL")).toBe("SIGKILL")
    const second = await startServer(on(dataDir))
    expect(noteOf(dataDir)).toMatchObject({ pid: second.pid, url: second.url })
  })

  it("refuses a port that is in use, and frees its directory", async () => {
    const { url } = await startServer(on(makeDir()))
    const { port } = new URL(url)
    const dataDir = makeDir()
    const args = ["serve", "--port", port, ...on(dataDir)]
    const { stdout, stderr, status } = await berth(args)
    expect({ stdout, status }).toEqual({ stdout: "", status: 1 })
    expect(stderr).toMatch(`berth: port ${port} of 127.0.0.1 is in use by another program`)
    expect(stderr).toContain("--port")
    const json = await berth([...args, "--json"])
    expect(JSON.parse(json.stderr).error).toMatchObject({ code: "server.port_in_use" })
    await startServer(on(dataDir))
  })

  it("refuses a data directory that cannot be made", async () => {
    const result = await berth(["serve", "--json", ...on("/dev/null/x")])
    expect(result).toMatchObject({ status: 1, stdout: "" })
    expect(JSON.parse(result.stderr).error.code).toMatch(/^store\./)
  })

  it("refuses a token file that others can read", async () => {
    const dataDir = makeDir()
    const first = await startServer(on(dataDir))
    await first.stop()
    writeFileSync(join(dataDir, "token"), "a".repeat(43))
    chmodSync(join(dataDir, "token"), 0o644)
    const { stderr, status } = await berth(["serve", "--port", "0", ...on(dataDir)])
    expect(status).toBe(1)
    expect(stderr).toContain(join(dataDir, "token"))
  })

  it("ends at a second signal, though a request has not ended", async () => {
    const dataDir = makeDir()
    const server = await startServer(on(dataDir))
    const socket = await hangingRequest(server.url)
    server.child.kill("SIGTERM")
    // The server stops listening, but waits for the request.
    await expect.poll(() => isOpen(server.url)).toBe(false)
    expect(server.child.exitCode).toBe(null)
    expect(await server.stop("SIGINT")).toBe(130)
    socket.destroy()
    const next = await startServer(on(dataDir))
    expect(await next.stop()).toBe(0)
  })

  // This case waits for the whole grace; the API's own tests have a shorter one.
  furtherCases("stops of a server with a request that does not end", { inPart: true })(
    "gives up on a request that does not end, and stops",
    async () => {
      const server = await startServer(on(makeDir()))
      const socket = await hangingRequest(server.url)
      expect(await server.stop()).toBe(0)
      socket.destroy()
      expect(JSON.parse(server.log.at(-1) ?? "")).toMatchObject({
        op: "server.stop",
        outcome: "ok",
        requestsEnded: false,
      })
    },
  )

  it("goes on when its output and its log are no longer read", async () => {
    const server = await startServer([...on(makeDir()), "--log-level", "debug"])
    server.child.stdout?.destroy()
    server.child.stderr?.destroy()
    for (let call = 0; call < 3; call++) {
      expect((await fetch(`${server.url}/v1/health`)).status).toBe(200)
    }
    expect(await server.stop()).toBe(0)
  })

  it("logs a defect without secrets, and ends with 1", async () => {
    const thrower = `process.on("SIGUSR2", () => { throw new Error("Bearer " + ["abc", "123"].join("")) })`
    const node = ["--import", `data:text/javascript,${encodeURIComponent(thrower)}`]
    const server = await startServer(on(makeDir()), { node })
    server.child.kill("SIGUSR2")
    expect(await server.exited).toBe(1)
    expect(JSON.parse(server.log.at(-1) ?? "")).toMatchObject({
      level: "fatal",
      op: "server.crash",
    })
    expect(server.log.join()).not.toContain("abc123")
  })
})

const isOpen = (url: string): Promise<boolean> =>
  fetch(`${url}/v1/health`).then(
    () => true,
    () => false,
  )
