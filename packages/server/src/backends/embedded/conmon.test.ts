import { once } from "node:events"
import { expect, it, onTestFinished } from "vitest"
import { openLaunchers } from "./conmon.ts"

it("has a launcher end with the server, which holds its input", async () => {
  const launchers = openLaunchers()
  onTestFinished(() => launchers.close())
  const launcher = launchers.take(new AbortController().signal)
  launcher.ref()
  const ended = once(launcher, "exit")
  launcher.stdin?.destroy()
  expect(await ended).toEqual([0, null])
})
