import { requires } from "@berth/testing/requires"
import { sampled } from "@berth/testing/sampled"
import { conversations } from "./journeys/conversations.ts"
import { firstSandbox } from "./journeys/first-sandbox.ts"
import { npm } from "./journeys/npm.ts"
import { ON_EVERY_BACKEND } from "./journeys/on-every-backend.ts"
import { ordinaryUser } from "./journeys/ordinary-user.ts"
import { packedSdk } from "./journeys/packed-sdk.ts"
import { permissions } from "./journeys/permissions.ts"
import { sameName } from "./journeys/same-name.ts"
import { words } from "./journeys/words.ts"
import { useMachine } from "./newcomer.ts"

/** The journeys in their order. Each leaves the machine as the next one expects it, whichever are drawn. */
const JOURNEYS = [
  ...ON_EVERY_BACKEND,
  conversations,
  sameName,
  words,
  permissions,
  packedSdk,
  ordinaryUser,
]

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "a newcomer, embedded",
  () => {
    // A group that every Linux has.
    const open = async () => ["--group", "users"]
    const machine = useMachine({ name: "embedded", open })
    npm(machine)
    firstSandbox(machine)
    for (const add of sampled("journeys of a newcomer, embedded", JOURNEYS, 4)) add(machine)
  },
)
