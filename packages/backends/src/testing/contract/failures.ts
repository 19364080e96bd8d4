import { type BerthError, ERRORS } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import type { AddCase, AddGroup } from "@berth/testing/sampled-cases"
import { expect } from "vitest"
import type { Backend } from "../../backend.ts"
import { exitOnce } from "./events.ts"
import type { ContractTestbed } from "./testbed.ts"

const MOUNTS_REFUSED = ["/", "/proc", "/proc/x", "/sys", "/dev/shm", "/usr", "/etc/passwd", "/bin"]

/** Calls that fail, and what they leave. */
export const failureCases = (testbed: ContractTestbed, it: AddCase, describe: AddGroup): void => {
  describe("a call that cannot succeed", () => {
    const unknown = newId.sandbox()
    const calls: Record<string, (backend: Backend) => Promise<unknown>> = {
      start: (backend) => backend.start(unknown),
      stop: (backend) => backend.stop(unknown, { graceMs: 1 }),
      pause: (backend) => backend.pause(unknown),
      resume: (backend) => backend.resume(unknown),
      logs: (backend) => backend.logs(unknown),
    }
    for (const [name, call] of Object.entries(calls)) {
      it(`[R1.14] fails with a typed error: ${name} of an unknown sandbox`, async () => {
        await expect(call(testbed.backend)).rejects.toMatchObject({
          code: "backend.unknown_sandbox",
        })
      })
    }

    it("[R1.14] leaves nothing: a create that is cancelled or misses its deadline", async () => {
      const cancelled = AbortSignal.abort()
      const failures: BerthError[] = []
      for (const call of [{ signal: cancelled }, { deadlineMs: 1 }, { deadlineMs: 8 }]) {
        const spec = testbed.specOf()
        await testbed.backend.create(spec, call).catch((error) => failures.push(error))
      }
      for (const failure of failures) {
        expect(ERRORS).toHaveProperty([failure.code])
        expect(["cancelled", "deadline.exceeded"]).toContain(failure.code)
      }
      expect(failures.length).toBeGreaterThanOrEqual(2)
      const left = (await testbed.backend.list()).map((each) => each.identity.sandbox)
      expect(left).toHaveLength(3 - failures.length)
      await Promise.all(left.map((sandbox) => testbed.backend.remove(sandbox)))
      await testbed.expectEmpty()
    })

    it("[R1.14] tells the engine's own words: a command that does not exist", async () => {
      const spec = testbed.specOf({ command: ["/no/such/program"] })
      const failure = await testbed.backend
        .create(spec)
        .then(() => testbed.backend.start(spec.identity.sandbox))
        .then(
          () => exitOnce(testbed.backend, spec.identity.sandbox),
          (error: BerthError) => error,
        )
      if (failure instanceof Error) {
        expect(failure.details).toHaveProperty(
          "engineSaid",
          expect.stringContaining("/no/such/program"),
        )
      } else {
        expect(failure.code).not.toBe(0)
        expect(await testbed.backend.logs(spec.identity.sandbox)).toContain("/no/such/program")
      }
    })

    for (const target of MOUNTS_REFUSED) {
      it(`is refused: a mount over ${target}`, async () => {
        const mounts = [{ kind: "directory" as const, source: "/tmp", target }]
        await expect(testbed.backend.create(testbed.specOf({ mounts }))).rejects.toMatchObject({
          code: "input.invalid",
        })
      })
    }

    it("is refused: a mount whose source does not exist", async () => {
      const mounts = [{ kind: "directory" as const, source: "/no/such/source", target: "/data" }]
      await expect(testbed.backend.create(testbed.specOf({ mounts }))).rejects.toMatchObject({
        code: "backend.mount_invalid",
      })
    })
  })
}
