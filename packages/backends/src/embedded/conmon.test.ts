import { once } from "node:events"
import { expect, it, onTestFinished } from "vitest"
import { openLaunchers } from "./conmon.ts"

it("ends a launcher when its input closes, as it does when the server dies", async () => {
  const launchers = openLaunchers()
  onTestFinished(() => launchers.close())
  const launcher = launchers.take(new AbortController().signal)
  launcher.ref()
  const ended = once(launcher, "exit")
  launcher.stdin?.destroy()
  expect(await ended).toEqual([0, null])
})
