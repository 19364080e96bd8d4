import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { useSharedEngine } from "../docker/engine.ts"
import { firstSandbox } from "./journeys/first-sandbox.ts"
import { ON_EVERY_BACKEND } from "./journeys/on-every-backend.ts"
import { useMachine } from "./newcomer.ts"

requires("root", "docker", "tini").describe("a newcomer, on Docker", () => {
  const open = async () => (await useSharedEngine()).flags
  const machine = useMachine({ name: "docker", open })
  firstSandbox(machine)
  for (const add of sampled("journeys of a newcomer, docker", ON_EVERY_BACKEND, 1)) add(machine)
})
