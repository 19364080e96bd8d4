import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { afterAll, beforeAll, it } from "vitest"
import { useSharedEngine } from "../docker/engine.ts"
import { openServer } from "../sandboxes/server.ts"
import { failedBoots } from "./failed-boot.ts"
import { gitJourneys } from "./git.ts"
import { type Case, type Server, STAGE_DEADLINE_MS } from "./journey.ts"

/** Adds the tests of journeys that take turns on one server of a backend. */
const suite = (
  flags: () => Promise<readonly string[]>,
  choose: (server: () => Server) => readonly Case[],
): void => {
  let server: Server
  beforeAll(async () => {
    server = await openServer(await flags())
  }, STAGE_DEADLINE_MS)
  afterAll(() => server?.close(), STAGE_DEADLINE_MS)
  for (const { title, work } of choose(() => server)) it(title, work, STAGE_DEADLINE_MS)
}

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe("embedded", () => {
  suite(
    async () => [],
    (server) => [
      ...failedBoots(server),
      ...sampled("git journeys of the first hour, embedded", gitJourneys(server), 1),
    ],
  )
})

requires("root", "docker", "tini").describe("on Docker", () => {
  suite(
    async () => (await useSharedEngine()).flags,
    (server) => {
      const all = [...failedBoots(server), ...gitJourneys(server)]
      return sampled("failed boots and git journeys of the first hour, docker", all, 1)
    },
  )
})
