import { readdirSync } from "node:fs"
import { requires } from "@berth/testing/requires"
import { expect, onTestFinished } from "vitest"
import { startChild } from "./child.ts"
import { mountNamespaces } from "./mount-namespaces.ts"

const NAMESPACES = 100

requires("root").it("reads the mount tables of a host with few descriptors", async () => {
  const script = `for i in $(seq ${NAMESPACES}); do unshare --mount sleep 1000 & done; wait`
  const child = startChild(["sh", "-c", script], { signal: undefined })
  child.closed.catch(() => {})
  onTestFinished(() => child.kill())
  await expect
    .poll(async () => (await mountNamespaces()).length, { timeout: 20_000 })
    .toBeGreaterThan(NAMESPACES)
  const before = openDescriptors()
  let most = 0
  const counting = setInterval(() => {
    most = Math.max(most, openDescriptors() - before)
  })
  onTestFinished(() => clearInterval(counting))
  for (let look = 0; look < 10; look++) await mountNamespaces()
  expect(most).toBeLessThan(NAMESPACES / 2)
})

const openDescriptors = (): number => readdirSync("/proc/self/fd").length
