import { requires } from "@berth/testing/requires"
import { conversations } from "./journeys/conversations.ts"
import { npm } from "./journeys/npm.ts"
import { onEveryBackend } from "./journeys/on-every-backend.ts"
import { ordinaryUser } from "./journeys/ordinary-user.ts"
import { packedSdk } from "./journeys/packed-sdk.ts"
import { permissions } from "./journeys/permissions.ts"
import { sameName } from "./journeys/same-name.ts"
import { words } from "./journeys/words.ts"
import { useMachine } from "./newcomer.ts"

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "a newcomer, embedded",
  () => {
    // A group that every Linux has.
    const open = async () => ["--group", "users"]
    const machine = useMachine({ name: "embedded", open })
    onEveryBackend(machine)
    conversations(machine)
    npm(machine)
    sameName(machine)
    words(machine)
    permissions(machine)
    packedSdk(machine)
    ordinaryUser(machine)
  },
)
