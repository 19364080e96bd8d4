import { BerthError } from "@berth/protocol/errors"
import { describe, expect, it } from "vitest"
import { createLogger, type LoggerOptions } from "./logger.ts"
import { Secrets } from "./secrets.ts"

const TOKEN = "tok-4f9a8b7c6d5e4f3a2b1c"

const logTo = async (options: Partial<LoggerOptions> = {}) => {
  const lines: string[] = []
  const secrets = new Secrets()
  secrets.add(TOKEN)
  const destination = { write: (line: string) => void lines.push(line) }
  const log = await createLogger({
    level: "trace",
    pretty: false,
    secrets,
    destination,
    ...options,
  })
  return {
    log,
    lines,
    text: () => lines.join(""),
    parsed: () => lines.map((line) => JSON.parse(line)),
  }
}

describe("createLogger", () => {
  it.each(["boot.failed", "workspace.failing"] as const)(
    "hides the last line of a hook, which %s quotes",
    async (code) => {
      const { log, text, parsed } = await logTo()
      const reason = "its last line: my password"
      const err = new BerthError(code, `it failed; ${reason}`, { details: { reason } })
      log.warn({ op: "x.y", err: new Error("outer", { cause: err }) }, "is tried again")
      expect(text()).not.toContain("my password")
      expect(parsed()).toMatchObject([{ err: { cause: { code } } }])
    },
  )

  it("writes one JSON object a line, with level and time that people can read", async () => {
    const { log, parsed } = await logTo()
    log.info({ sandbox: "sb-1" }, "hello")
    expect(parsed()).toEqual([
      {
        level: "info",
        time: expect.stringMatching(/^\d{4}-.*Z$/),
        pid: process.pid,
        sandbox: "sb-1",
        msg: "hello",
      },
    ])
  })

  it("writes text for a person at a terminal, redacted all the same", async () => {
    const { log, text } = await logTo({ pretty: true })
    log.info({ password: "hunter2", note: TOKEN }, "hello")
    expect(() => JSON.parse(text())).toThrow()
    expect(text()).toContain("hello")
    expect(text()).not.toMatch(/hunter2|tok-/)
  })

  it("leaves out messages below the level", async () => {
    const { log, lines } = await logTo({ level: "warn" })
    log.info("quiet")
    expect(lines).toEqual([])
  })

  it("redacts the values of secret names, four levels deep", async () => {
    const { log, text, parsed } = await logTo()
    log.info({
      token: "S",
      headers: { Authorization: "S", "x-api-key": "S", cookie: "S", accept: "json" },
      a: [
        { b: { c: { apiKey: "S", password: "S", GITHUB_TOKEN: "S", clientSecret: { x: "S" } } } },
      ],
      usage: { tokens: 12 },
      map: new Map([["secret", "S"]]),
    })
    expect(text()).not.toContain('"S"')
    expect(parsed()[0]).toMatchObject({
      headers: { Authorization: "[redacted]", accept: "json" },
      usage: { tokens: 12 },
    })
  })

  it("writes the names of environment variables and none of their values", async () => {
    const { log, text, parsed } = await logTo()
    log.info({
      spec: { env: { HOME: "S1", N: 5 }, process: { environment: ["PATH=S2", "EMPTY"] } },
      pod: [{ env: [{ name: "X", value: "S3" }] }],
    })
    expect(text()).not.toMatch(/S[123]/)
    expect(parsed()[0].spec).toEqual({
      env: { HOME: "[redacted]", N: "[redacted]" },
      process: { environment: ["PATH=[redacted]", "EMPTY=[redacted]"] },
    })
  })

  it("scrubs the known token and credentials from messages and fields", async () => {
    const { log, text } = await logTo()
    log.info(`got ${TOKEN}`)
    log.info({ url: `/x?t=${TOKEN}`, [TOKEN]: 1 }, "header was Bearer abc.def-123")
    log.info("Authorization: Basic dXNlcjpwYXNz")
    log.info("cloned https://user:pa55@host/repo.git and git+ssh://pa55@host")
    log.info('ran login --password=pa55 token: pa55 with body {"apiKey":"pa55"}')
    log.info("login failed: password: pa55, a=token=pa55, my-api_key : pa55, secret='it is pa55'")
    log.info("%s and %j and Bearer %s", TOKEN, { password: "pa55" }, "pa55")
    expect(text()).not.toMatch(/tok-|abc\.def|dXNl|pa55/)
    expect(text()).toContain("host/repo.git")
  })

  it("scrubs errors: message, stack, details and every nested cause", async () => {
    const { log, text, parsed } = await logTo()
    const root = new Error(`root Bearer abc123 ${TOKEN}`)
    const middle = new AggregateError([new Error(`inner ${TOKEN}`)], "middle", { cause: root })
    const err = new BerthError("internal", `top ${TOKEN}`, {
      cause: middle,
      details: { token: "S", request: { headers: { authorization: "S" } } },
    })
    log.error({ err }, "failed")
    log.error(err)
    log.error({ problem: { deep: err } })
    expect(text()).not.toMatch(/tok-|abc123|"S"/)
    expect(parsed()[0].err).toMatchObject({
      type: "BerthError",
      code: "internal",
      message: "top [redacted]",
      stack: expect.stringContaining("logger.test.ts"),
      cause: { message: "middle", cause: { message: "root Bearer [redacted] [redacted]" } },
    })
    expect(parsed()[0].err.cause.errors[0].message).toBe("inner [redacted]")
    expect(parsed()[1].msg).toBe("top [redacted]")
  })

  it("redacts the fields of a child logger", async () => {
    const { log, text } = await logTo()
    log.child({ session: "ses-1", token: "S", note: TOKEN }).info("x")
    expect(text()).toContain("ses-1")
    expect(text()).not.toMatch(/tok-|"S"/)
  })

  it("scrubs a secret that JSON escapes, and one that it learns later", async () => {
    const secrets = new Secrets()
    const { log, text } = await logTo({ secrets })
    secrets.add('a"b\nc')
    secrets.add("")
    log.info({ note: 'x a"b\nc y' })
    expect(text()).toContain('"note":"x [redacted] y"')
  })

  it("scrubs seven texts of 200,000 characters within two seconds", async () => {
    const { log, lines } = await logTo()
    const startedMs = performance.now()
    for (const text of ["a", "a.", "password", "bearer ", "token= ", "://@", "api-key\t"]) {
      log.info(text.repeat(200_000 / text.length))
    }
    expect(lines).toHaveLength(7)
    expect(performance.now() - startedMs).toBeLessThan(2_000)
  })

  it("writes a note in place of circles, throwing getters, bytes and objects too deep to write", async () => {
    const { log, parsed } = await logTo()
    const circle: Record<string, unknown> = { n: 1n, bytes: Buffer.from("S") }
    circle.self = circle
    let deep: object = { token: "S" }
    for (let depth = 0; depth < 100; depth++) deep = { deep }
    log.info({
      circle,
      deep,
      getter: {
        get broken() {
          throw new Error("no")
        },
      },
    })
    expect(parsed()[0]).toMatchObject({
      circle: { n: "1", bytes: "[1 bytes]", self: "[circular]" },
      getter: "[unreadable]",
    })
    expect(JSON.stringify(parsed()[0])).toContain("[too deep]")
  })
})
