import { BerthError } from "@berth/protocol/errors"
import { describe, expect, it } from "vitest"
import { createLogger } from "./logger.ts"
import { operation } from "./operation.ts"
import { Secrets } from "./secrets.ts"

const logTo = async () => {
  const lines: string[] = []
  const log = await createLogger({
    level: "info",
    pretty: false,
    secrets: new Secrets(),
    destination: { write: (line: string) => void lines.push(line) },
  })
  return { log, parsed: () => lines.map((line) => JSON.parse(line)) }
}

describe("operation", () => {
  it("writes one line with name, outcome, duration and ids, and returns the result", async () => {
    const { log, parsed } = await logTo()
    const result = await operation(log, "sandbox.create", { sandbox: "sb-1" }, async (note) => {
      note({ layers: 3 })
      return 42
    })
    expect(result).toBe(42)
    expect(parsed()).toEqual([
      expect.objectContaining({
        level: "info",
        op: "sandbox.create",
        outcome: "ok",
        durationMs: expect.any(Number),
        sandbox: "sb-1",
        layers: 3,
      }),
    ])
  })

  it.each([
    [new Error("boom"), { level: "error", outcome: "failed", code: "internal" }],
    [new BerthError("internal", "boom"), { level: "error", outcome: "failed", code: "internal" }],
    [new BerthError("not_found", "boom"), { level: "warn", outcome: "failed", code: "not_found" }],
    [
      new BerthError("cancelled", "boom"),
      { level: "info", outcome: "cancelled", code: "cancelled" },
    ],
  ])("writes one line for %s, and throws it on", async (error, line) => {
    const { log, parsed } = await logTo()
    const run = operation(log, "sandbox.create", { sandbox: "sb-1" }, () => {
      throw error
    })
    await expect(run).rejects.toBe(error)
    expect(parsed()).toEqual([
      expect.objectContaining({
        ...line,
        sandbox: "sb-1",
        err: expect.objectContaining({ message: "boom" }),
      }),
    ])
  })

  it("lets no field take the place of the name, the outcome or the duration", async () => {
    const { log, parsed } = await logTo()
    await operation(log, "sandbox.create", { op: "x", outcome: "y", durationMs: "z" }, () => {})
    expect(parsed()[0]).toMatchObject({
      op: "sandbox.create",
      outcome: "ok",
      durationMs: expect.any(Number),
    })
  })
})
