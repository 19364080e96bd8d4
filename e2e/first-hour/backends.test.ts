import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll } from "vitest"
import { useSharedEngine } from "../docker/engine.ts"
import { openServer } from "../sandboxes/server.ts"
import { failedBoots } from "./failed-boot.ts"
import { gitJourneys } from "./git.ts"
import { type Server, STAGE_DEADLINE_MS } from "./journey.ts"

/** Journeys that take turns on one server of a backend. */
const journeys = (flags: () => Promise<readonly string[]>): void => {
  let server: Server
  beforeAll(async () => {
    server = await openServer(await flags())
  }, STAGE_DEADLINE_MS)
  afterAll(() => server?.close(), STAGE_DEADLINE_MS)
  failedBoots(() => server)
  gitJourneys(() => server)
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("embedded", () => {
  journeys(async () => [])
})

requires("root", "docker", "tini").describe("on Docker", () => {
  journeys(async () => (await useSharedEngine()).flags)
})
