"""Random lives of many tasks at once."""

from tests.statemachine.world import World

TestManyTasks = World.TestCase
