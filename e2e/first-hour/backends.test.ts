import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll } from "vitest"
import { startEngine } from "../docker/engine.ts"
import { openServer } from "../sandboxes/server.ts"
import { failedBoots } from "./failed-boot.ts"
import { gitJourneys } from "./git.ts"
import { type Server, STAGE_DEADLINE_MS } from "./journey.ts"

/** Journeys that take turns on one server of a backend. */
const journeys = (open: () => Promise<readonly string[]>, close: () => Promise<void>): void => {
  let server: Server
  beforeAll(async () => {
    server = await openServer(await open())
  }, STAGE_DEADLINE_MS)
  afterAll(async () => {
    try {
      await server?.close()
    } finally {
      await close()
    }
  }, STAGE_DEADLINE_MS)
  failedBoots(() => server)
  gitJourneys(() => server)
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("embedded", () => {
  journeys(
    async () => [],
    async () => {},
  )
})

requires("root", "docker", "tini").describe("on Docker", () => {
  let engine: Awaited<ReturnType<typeof startEngine>> | undefined
  journeys(
    async () => {
      engine = await startEngine()
      return engine.flags
    },
    async () => await engine?.stop(),
  )
})
