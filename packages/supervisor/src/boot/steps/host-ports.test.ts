import { BerthError } from "@berth/protocol/errors"
import { afterEach, beforeEach, expect, it } from "vitest"
import { stepsOf } from "../modes.ts"
import { hostPorts } from "./host-ports.ts"
import { Stage } from "./testing/stage.ts"

let stage: Stage
beforeEach(async () => {
  stage = await Stage.open()
})
afterEach(() => stage.close())

it("listens at each port, and warns of a port that is taken inside", async () => {
  const context = {
    ...stage.context({ hostPorts: [5432, 11434] }),
    hostPorts: {
      listen: async (port: number) => {
        const details = { systemSaid: "it is taken" }
        if (port === 5432) throw new BerthError("bridge.listen_failed", "no", { details })
      },
    },
  }
  const trace = await stage.boot([hostPorts()], context).ended
  expect(trace).toMatchObject({
    outcome: "succeeded",
    steps: [{ state: "succeeded", detail: "127.0.0.1 leads to the host at 11434" }],
    warnings: [
      {
        step: "host-ports",
        message: "port 5432 of the host is not reached from inside: it is taken",
      },
    ],
  })
})

it.each(["fresh", "prebuilt", "restore", "build"] as const)(
  "comes before all steps that run programs in a boot of mode %s, where a port is named",
  (mode) => {
    const first = (hostPorts: number[] | undefined) =>
      stepsOf(stage.context({ mode, hostPorts }))
        .filter(({ needs }) => needs.length === 0)
        .map(({ name }) => name)
    expect(first([11434]).filter((name) => name !== "bridge")).toEqual(["host-ports"])
    expect(first(undefined)).not.toContain("host-ports")
  },
)
