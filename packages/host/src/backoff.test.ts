import { expect, it } from "vitest"
import { backoffMs } from "./backoff.ts"

it("doubles the wait with each failure, up to the bound", () => {
  const waits = [1, 2, 3, 4, 5, 1_000].map((failures) =>
    backoffMs(failures, { firstMs: 50, mostMs: 300 }),
  )
  expect(waits).toEqual([50, 100, 200, 300, 300, 300])
})
