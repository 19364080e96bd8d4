import { requires } from "@berth/testing/requires"
import { useSharedEngine } from "../docker/engine.ts"
import { onEveryBackend } from "./journeys/on-every-backend.ts"
import { useMachine } from "./newcomer.ts"

requires("root", "docker", "tini").describe("a newcomer, on Docker", () => {
  const open = async () => (await useSharedEngine()).flags
  onEveryBackend(useMachine({ name: "docker", open }))
})
