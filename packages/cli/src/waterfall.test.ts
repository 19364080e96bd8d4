import type { BootStep, BootTrace } from "@berth/protocol/boot"
import { describe, expect, it } from "vitest"
import { renderWaterfall } from "./waterfall.ts"

const NOW = new Date("2026-01-02T03:04:06.000Z")

const step = (name: string, part: Partial<BootStep>): BootStep => ({
  name,
  needs: [],
  required: true,
  timeoutMs: 1000,
  state: "succeeded",
  startedAtMs: null,
  endedAtMs: null,
  detail: "",
  facts: {},
  error: null,
  lastOutput: "",
  outputBytes: 0,
  abandoned: false,
  ...part,
})

const trace = (steps: BootStep[], part: Partial<BootTrace> = {}): BootTrace => ({
  mode: "fresh",
  startedAt: "2026-01-02T03:04:05.000Z",
  outcome: "succeeded",
  readyAtMs: 400,
  endedAtMs: 400,
  ending: null,
  warnings: [],
  steps,
  ...part,
})

describe("a waterfall", () => {
  it("[R2.13] shows when each step ran beside the others, how long, and what it did", () => {
    const text = renderWaterfall(
      trace([
        step("git-sync", { startedAtMs: 0, endedAtMs: 200, detail: "cloned\napp" }),
        step("agent-start", { startedAtMs: 100, endedAtMs: 400 }),
        step("start-hook", {
          state: "skipped",
          startedAtMs: 200,
          endedAtMs: 200,
          detail: "no hook",
        }),
      ]),
      NOW,
    )
    expect(text).toBe(
      [
        "fresh boot of 2026-01-02T03:04:05.000Z: ready after 400.0 ms, succeeded after 400.0 ms",
        `✓ git-sync    ${"█".repeat(20)}${" ".repeat(20)} 200.0 ms  cloned app`,
        `✓ agent-start ${" ".repeat(10)}${"█".repeat(30)} 300.0 ms`,
        `– start-hook  ${" ".repeat(20)}█${" ".repeat(19)}   0.0 ms  no hook`,
        "",
      ].join("\n"),
    )
  })

  it("[R2.9] ends with the reason of an early end, and the last output of the failed step", () => {
    const error = { code: "hook.failed", message: "m", hint: "Look at the hook." }
    const failed = step("setup-hook", {
      state: "failed",
      startedAtMs: 0,
      endedAtMs: 5,
      error,
      lastOutput: "one\ntwo\n",
    })
    const text = renderWaterfall(
      trace([failed, step("agent-start", { state: "cancelled", startedAtMs: 0, endedAtMs: 6 })], {
        outcome: "failed",
        readyAtMs: null,
        endedAtMs: 6,
        warnings: [{ step: null, message: "careful" }],
        ending: { step: "setup-hook", reason: "step setup-hook failed: x", atMs: 5, others: [] },
      }),
      NOW,
    )
    expect(text.split("\n").slice(3)).toEqual([
      "warning: careful",
      "it ended early: step setup-hook failed: x",
      "its last output:",
      "  one",
      "  two",
      "hint: Look at the hook.",
      "",
    ])
    expect(text).toContain("never ready, failed after 6.0 ms")
  })

  it("shows a boot that is under way, and a boot without steps", () => {
    const running = { outcome: "running", readyAtMs: null, endedAtMs: null } as const
    const text = renderWaterfall(
      trace(
        [
          step("git-sync", { state: "running", startedAtMs: 10 }),
          step("ready", { state: "pending" }),
        ],
        running,
      ),
      NOW,
    )
    expect(text).toContain("never ready, under way")
    expect(text).toMatch(/^… git-sync ███+ +990.0 ms$/m)
    expect(text).toMatch(/^· ready$/m)
    expect(renderWaterfall(trace([]), NOW)).toContain("succeeded")
  })
})
